"""Make the fonts of the studio's page: WOFF2 subsets, with their licences.

    python -m venv /tmp/fonts && /tmp/fonts/bin/pip install fonttools==4.68.0 brotli==1.2.1
    /tmp/fonts/bin/python tools/page_fonts.py

The script downloads released packages with npm, checks their hashes, and writes into
src/gradwalk/studio/static/fonts/. The same versions give the same bytes, so the result is
committed. Run the script again when the page uses a character that none of its fonts has;
tests/studio/page/test_fonts.py then fails. The families are renamed, because some of the licences
reserve the original names for unmodified fonts.

- text: Inter, from regular to bold in one file, with even (tabular) figures.
- mono: JetBrains Mono, regular and bold; letters are 0.6 em wide, which the drawing assumes.
- math: STIX Two Math, with the MATH table that browsers use to lay out MathML.
- symbols: DejaVu Sans Mono, only the few characters that text or mono lack.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fontTools.ttLib import TTFont

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src" / "gradwalk" / "studio" / "static" / "fonts"

# Package and hash, as `npm view NAME@VERSION dist.integrity` prints it.
PACKAGES = {
    "inter-ui@4.1.1": (
        "sha512-451h0J29HyOmA+JXgSi/6M12tL7ZCZ8arYKZUXiOXTJpJbAKqJvFh3k5S"
        "iV3x7tKe0C0KyrKUUiQIvvZ2PQDcA=="
    ),
    "typeface-jetbrains-mono@2.0.1": (
        "sha512-r5ehb53K0x7VWFkk35jD1Hpnk09qm26wJM7H+mclj+eXX35IAoDC7x1ND"
        "DCKy0kpyvLo7xoEEY3d9Slj1Ar8vQ=="
    ),
    "@fontsource/jetbrains-mono@5.3.0": (
        "sha512-fqDfB5I9f1p1TV486aUgB9t8zP84P0O1FtQR5Ol9vjwPy+S+EIGlVYm1c"
        "vj2W5shcZMTg2nZFdVMoH5wFu8a1A=="
    ),
    "@fontsource/stix-two-math@5.3.0": (
        "sha512-negoeozw6VSXjZMozwKRSm/dhCQT62csZcuea9I8KYqPaZq/8KbbBBrA0"
        "2ZHF7AyuR5mVML/p+q0bwFuSIf2GQ=="
    ),
    "dejavu-fonts-ttf@2.37.3": (
        "sha512-f1hd7jJbeQa1VWcw+K2KrTXS50zTMaHpVC4XIKJpNcDeYR5ajMtj/iLlQ"
        "DYNvLOKamUB3ARVVCf79lNwNVztSQ=="
    ),
}
INTER = "inter-ui@4.1.1"
MONO = "typeface-jetbrains-mono@2.0.1"
MATH = "@fontsource/stix-two-math@5.3.0"
DEJAVU = "dejavu-fonts-ttf@2.37.3"
LICENCES = {  # JetBrains Mono: the package with the whole font lacks its licence
    "LICENSE-Inter.txt": (INTER, "LICENSE.txt"),
    "LICENSE-JetBrains-Mono.txt": ("@fontsource/jetbrains-mono@5.3.0", "LICENSE"),
    "LICENSE-STIX-Two-Math.txt": (MATH, "LICENSE"),
    "LICENSE-DejaVu.txt": (DEJAVU, "LICENSE"),
}

# Where the texts of the page come from, beside web/.
ROOMS = ("course", "inspect", "ops", "printers", "studio")
# Characters that users may type or record: Latin and Greek names, punctuation, indices, ...
TYPED = [
    (0x20, 0x7E), (0xA0, 0x17F), (0x384, 0x3CE), (0x3D0, 0x3D6), (0x3F0, 0x3F6),
    (0x2010, 0x2026), (0x2030, 0x203A), (0x2070, 0x209C), (0x2190, 0x2199), (0x21D0, 0x21D4),
    (0x2318, 0x2318),
]  # fmt: skip
# Browsers take the italic form of a single letter in MathML from here; h has its own code point.
MATH_ITALIC = [(0x1D434, 0x1D467), (0x1D6A4, 0x1D6A5), (0x1D6E2, 0x1D71B), (0x210E, 0x210E)]
# Kerning, tabular figures, accents. No `calt`: it draws an arrow for ->.
TEXT_FEATURES = ["kern", "tnum", "ccmp", "locl", "mark", "mkmk"]
MATH_FEATURES = ["ssty", "ccmp", "mark", "mkmk"]  # ssty: the forms of indices


def characters() -> set[int]:
    """Every character that the page, its lessons and Python's texts use, or that users may type."""
    found = _codes(TYPED)
    for folder, endings in (
        ("web/src", (".ts", ".tsx", ".css")),
        *((f"src/gradwalk/{room}", (".py", ".json", ".md", ".txt")) for room in ROOMS),
    ):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in endings and path.parent != FOLDER:
                found |= set(map(ord, path.read_text(encoding="utf-8")))
    return {code for code in found if chr(code).isprintable() or code == 0xA0}


def _codes(ranges: list[tuple[int, int]]) -> set[int]:
    return {code for first, last in ranges for code in range(first, last + 1)}


def main() -> None:
    """Fetch, subset, write."""
    import fontTools.ttLib

    wanted = characters()
    letters = wanted | _codes(MATH_ITALIC)
    with tempfile.TemporaryDirectory() as folder:
        sources = {name: _fetched(name, Path(folder)) for name in PACKAGES}

        def opened(package: str, path: str) -> TTFont:
            return fontTools.ttLib.TTFont(sources[package] / path, recalcTimestamp=False)

        inter = opened(INTER, "variable/InterVariable.woff2")
        regular = opened(MONO, "dist/JetBrainsMono-Regular.woff2")
        bold = opened(MONO, "dist/JetBrainsMono-Bold.woff2")
        math = opened(MATH, "files/stix-two-math-latin-400-normal.woff2")
        symbols = opened(DEJAVU, "ttf/DejaVuSansMono.ttf")
        lacking = {c for font in (inter, regular) for c in wanted - set(font.getBestCmap())}
        made = {
            "text.woff2": _weights(_subset(inter, wanted, TEXT_FEATURES, "Gradwalk Text")),
            "mono.woff2": _subset(regular, wanted, TEXT_FEATURES, "Gradwalk Mono"),
            "mono-bold.woff2": _subset(bold, wanted, TEXT_FEATURES, "Gradwalk Mono"),
            "math.woff2": _subset(math, letters, MATH_FEATURES, "Gradwalk Math"),
            "symbols.woff2": _subset(symbols, lacking, TEXT_FEATURES, "Gradwalk Symbols"),
        }
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name, font in made.items():
            (FOLDER / name).write_bytes(_packed(font))
        for name, (package, path) in LICENCES.items():
            text = (sources[package] / path).read_text(encoding="utf-8-sig")
            (FOLDER / name).write_text(text, encoding="utf-8")
    sizes = {name: (FOLDER / name).stat().st_size for name in made}
    for name, size in sizes.items():
        print(f"{size:>8,} {name}")
    print(f"{sum(sizes.values()):>8,} together")
    gone = wanted - {code for font in made.values() for code in font.getBestCmap()}
    print(f"in no font: {' '.join(f'U+{code:04X} {chr(code)}' for code in sorted(gone)) or 'none'}")


def _fetched(name: str, folder: Path) -> Path:
    """The files of a package of the npm registry."""
    command = ["npm", "pack", "--json", "--pack-destination", folder, name]
    told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout
    (packed,) = json.loads(told)
    # npm names the file of @a/b differently from version to version.
    path = folder / packed["filename"].replace("@", "").replace("/", "-")
    digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != PACKAGES[name]:
        raise SystemExit(f"{name} is not the package that was expected: sha512-{digest}")
    unpacked = folder / path.stem
    with tarfile.open(path) as archive:
        archive.extractall(unpacked, filter="data")
    return unpacked / "package"


def _subset(font: TTFont, codes: set[int], features: list[str], family: str) -> TTFont:
    """The font with these characters only, under another name."""
    from fontTools import subset

    options = subset.Options()
    options.layout_features = features
    options.hinting = False
    options.notdef_outline = True
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14]  # copyright, names, version, licence
    options.drop_tables += ["FFTM", "STAT", "meta"]
    chosen = subset.Subsetter(options)
    chosen.populate(unicodes=codes)
    chosen.subset(font)
    names: Any = font["name"]
    style = names.getDebugName(2)
    for number, text in {
        1: family,
        3: f"{family} {style}: subset",
        4: f"{family} {style}",
        6: f"{family} {style}".replace(" ", ""),
    }.items():
        for record in [record for record in names.names if record.nameID == number]:
            record.string = text
    return font


def _weights(font: TTFont) -> TTFont:
    """Limit a variable font to regular to bold, at its small optical size."""
    from fontTools.ttLib import TTFont
    from fontTools.varLib import instancer

    # The instancer can read a subset font only after it has been written.
    written = TTFont(io.BytesIO(_packed(font)), recalcTimestamp=False)
    return instancer.instantiateVariableFont(written, {"opsz": 14, "wght": (400, 700)})


def _packed(font: TTFont) -> bytes:
    font.flavor = "woff2"
    written = io.BytesIO()
    font.save(written)
    return written.getvalue()


if __name__ == "__main__":
    main()
