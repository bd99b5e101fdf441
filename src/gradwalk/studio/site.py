"""The studio as static files for any web server, or for a frame in another page.

All addresses are relative, so it works under any path. Features that need Python say so.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

from gradwalk import __version__
from gradwalk.course.catalogue import LESSONS, Catalogue
from gradwalk.course.classroom.completion import checked_key
from gradwalk.io.atomic import write_atomically
from gradwalk.studio.pages import SCORM, STATIC, beside, page
from gradwalk.studio.scorm import VERSIONS, scorm_manifest

MANIFEST = "gradwalk-site.json"  # which files are ours


def write_site(
    out: str | os.PathLike[str],
    *,
    lessons: Sequence[str | os.PathLike[str]] = (),
    class_key: str = "",
    static: Path = STATIC,
) -> list[Path]:
    """Write the site into a folder: a new one, an empty one, or one that holds a site already.

    `lessons` are further folders of lessons; with a `class_key` the page makes codes of completion.
    Each file is written atomically, index.html last; files of an earlier site that this one lacks
    are removed, all other files stay.
    """
    out = Path(out)
    files = _files(lessons, static, class_key)
    earlier = _earlier(out)
    names = [*(name for name in files if name != "index.html"), MANIFEST, "index.html"]
    files[MANIFEST] = _json({"version": __version__, "files": sorted(names)})
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out / name, [files[name]])
    for name in set(earlier) - set(names):
        _remove(out, name)
    return [out / name for name in names]


def _files(
    lessons: Sequence[str | os.PathLike[str]], static: Path, class_key: str, scorm: str = ""
) -> dict[str, bytes]:
    """The site's files by name."""
    if class_key:
        class_key = checked_key(class_key)
    catalogue = Catalogue([LESSONS, *map(Path, lessons)])
    index = page("site", catalogue=catalogue, class_key=class_key, scorm=scorm, static=static)
    files = {name: path.read_bytes() for name, path in beside(static).items()}
    files |= {f"lessons/{name}": path.read_bytes() for name, path in catalogue.files.items()}
    files["lessons/index.json"] = _json(catalogue.index())
    return files | {"index.html": index.encode()}


def write_package(
    out: str | os.PathLike[str],
    version: str,
    *,
    lessons: Sequence[str | os.PathLike[str]] = (),
    class_key: str = "",
    static: Path = STATIC,
) -> list[str]:
    """Write the site as a SCORM package, a zip file; returns the names of its files."""
    if version not in VERSIONS:
        raise ValueError(f"SCORM is {' or '.join(VERSIONS)}, not '{version}'")
    files = _files(lessons, static, class_key, version)
    files[SCORM] = (static / SCORM).read_bytes()
    files = {"imsmanifest.xml": scorm_manifest(version, sorted(files)), **files}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0))  # the same site, the same bytes
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, content)
    write_atomically(Path(out), [packed.getvalue()])
    return list(files)


def _json(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def _earlier(out: Path) -> list[str]:
    """The files of an existing site; raise for a folder with other contents."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file, and the site is a folder")
    # A folder with only hidden files, as of a fresh checkout, counts as empty.
    if not out.exists() or not [p for p in out.iterdir() if not p.name.startswith(".")]:
        return []
    try:
        listed = json.loads((out / MANIFEST).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(
            f"{out} is not empty, and no site that gradwalk wrote: nothing was changed. Fix: name "
            "a new folder, or empty this one"
        ) from None
    return [name for name in listed if isinstance(name, str)]


def _remove(out: Path, name: str) -> None:
    """Remove a file of an earlier site, and its folder if that is then empty."""
    path = out / name
    if not path.resolve().is_relative_to(out.resolve()):
        return  # the list was edited: files outside the folder are not ours
    path.unlink(missing_ok=True)
    try:
        path.parent.rmdir()
    except OSError:
        pass
