"""Read references.bib, and write references.md from it: ``python docs/bibliography.py``."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
BIB, PAGE = HERE / "references.bib", HERE / "references.md"
# [KEY], [KEY, eq. (3)], [KEY, algorithm 2]: initials of the authors, two digits of the year
CITATION = re.compile(r"\[([A-Z][A-Za-z]+\d{2}[a-z]?)((?:,[^\]\[]*)?)\]")
ACCENTS = {r"{\~n}": "ñ", r"{\'i}": "í", r"{\"o}": "ö", r"{\"a}": "ä", r"{\"u}": "ü", r"{\'e}": "é", r"{\l}": "ł"}
ACCENTS[r"{\v{s}}"] = "š"
INTRODUCTION = """# References

Docstrings and these pages cite the literature by the keys below, where possible down to the equation:
`[KEY, eq. (n)]`. The entries are in `docs/references.bib`; this page is written from it by
`python docs/bibliography.py`.
"""


def entries(text: str) -> dict[str, dict[str, str]]:
    """Fields of each entry by its key, in the order of the file; values as they are printed."""
    found = {}
    for key, body in re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", text, flags=re.MULTILINE | re.DOTALL):
        found[key] = {name: plain(value) for name, value in re.findall(r"^ +(\w+) += \{(.*)\},$", body, re.MULTILINE)}
    return found


def plain(value: str) -> str:
    """LaTeX accents, braces and dashes as plain characters."""
    for latex, character in ACCENTS.items():
        value = value.replace(latex, character)
    return re.sub(r"[{}]", "", value).replace("--", "–")


def anchor(key: str) -> str:
    """Name of the target that a citation links to."""
    return f"ref-{key.lower()}"


def names(authors: str) -> str:
    """ "Last, First and Last, First" as "First Last, First Last"."""
    return ", ".join(" ".join(reversed(author.split(", "))) for author in authors.split(" and "))


def where(entry: dict[str, str]) -> str:
    """Journal, proceedings or publisher, with volume and pages."""
    place = entry.get("journal") or entry.get("booktitle") or entry.get("publisher")
    place = f"*{place}*" if place else entry["note"]
    volume = entry.get("volume", "") + (f"({entry['number']})" if "number" in entry else "")
    pages = entry.get("pages", "")
    details = ":".join(part for part in (volume, pages) if part) if volume else (f"pp. {pages}" if pages else "")
    doi = f"doi:{entry['doi']}" if "doi" in entry else ""
    return ", ".join(part for part in (place, details, entry["year"], doi) if part)


def page(text: str) -> str:
    """The whole of references.md."""
    items = [
        f"({anchor(key)})=\n**[{key}]** {names(entry['author'])}. {entry['title']}. {where(entry)}.\n"
        for key, entry in entries(text).items()
    ]
    return "\n".join([INTRODUCTION, *items])


if __name__ == "__main__":
    PAGE.write_text(page(BIB.read_text(encoding="utf-8")), encoding="utf-8")
