"""The manifest of a SCORM package: one lesson unit (SCO), which is the whole site.

`web/src/scorm.ts` speaks with the platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Tree

from gradwalk import __version__

VERSIONS = ("1.2", "2004")
TITLE = "gradwalk: understand backpropagation"
_XSI = "http://www.w3.org/2001/XMLSchema-instance"
# By version: the namespaces of the package and of ADL, the version's name, the type's attribute.
_DIALECTS = {
    "1.2": (
        "http://www.imsproject.org/xsd/imscp_rootv1p1p2",
        "http://www.adlnet.org/xsd/adlcp_rootv1p2",
        "1.2",
        "adlcp:scormtype",
    ),
    "2004": (
        "http://www.imsglobal.org/xsd/imscp_v1p1",
        "http://www.adlnet.org/xsd/adlcp_v1p3",
        "2004 4th Edition",
        "adlcp:scormType",
    ),
}


def scorm_manifest(version: str, files: Sequence[str]) -> bytes:
    """imsmanifest.xml for a package with these files."""
    package, adl, name, kind = _DIALECTS[version]
    places = {
        "1.2": f"{package} imscp_rootv1p1p2.xsd {adl} adlcp_rootv1p2.xsd",
        "2004": f"{package} imscp_v1p1.xsd {adl} adlcp_v1p3.xsd",
    }
    manifest = Tree.Element(
        "manifest",
        {
            "identifier": "gradwalk-site",
            "version": __version__,
            "xmlns": package,
            "xmlns:adlcp": adl,
            "xmlns:xsi": _XSI,
            "xsi:schemaLocation": places[version],
        },
    )
    metadata = Tree.SubElement(manifest, "metadata")
    Tree.SubElement(metadata, "schema").text = "ADL SCORM"
    Tree.SubElement(metadata, "schemaversion").text = name
    organizations = Tree.SubElement(manifest, "organizations", default="course")
    course = Tree.SubElement(organizations, "organization", identifier="course")
    Tree.SubElement(course, "title").text = TITLE
    item = Tree.SubElement(course, "item", identifier="lessons", identifierref="site")
    Tree.SubElement(item, "title").text = TITLE
    about = {"identifier": "site", "type": "webcontent", kind: "sco", "href": "index.html"}
    site = Tree.SubElement(Tree.SubElement(manifest, "resources"), "resource", about)
    for file in files:
        Tree.SubElement(site, "file", href=file)
    Tree.indent(manifest)
    text = Tree.tostring(manifest, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()
