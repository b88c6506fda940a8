"""Find domains without a scheme, file names, paths and IP addresses in a text.

Other words with a full stop inside, such as `e.g.` and `end.Next`, look the same: only common endings count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


DOMAINS: Final = words(
    "com org net edu gov int info biz io dev app ai eu uk de fr es nl pl ru cn jp kr br au ca ch se dk fi cz sk hu ro"
    " gr pt ie ua tr mx ar cl nz za il ir cc tv xyz online shop tech cloud"
)
WORD_DOMAINS: Final = words("at be in is it me no so to us")  # after a full stop without a space, words
FILES: Final = words(
    "pdf docx doc xlsx xls pptx ppt odt ods odp rtf txt md rst csv tsv json jsonl yaml yml toml xml html htm xhtml css"
    " scss js mjs cjs ts tsx jsx vue py pyc ipynb rb php java jar kt swift cpp hpp cs sh bash bat cmd ps1 sql db sqlite"
    " exe msi dll dylib deb rpm dmg iso img apk ipa zip gz tgz bz2 xz 7z rar tar whl png jpg jpeg gif svg bmp tif tiff"
    " webp ico mp3 mp4 m4a m4v wav ogg oga ogv flac aac avi mov mkv webm ini cfg conf env log lock bak tmp properties"
    " plist po pot xlf xliff tmx srt vtt epub mobi ttf otf woff woff2 eps psd bib cmake gradle ics vcf pem crt"
)
LETTER: Final = "0-9A-Za-zÀ-ɏ_"  # without a script that has no spaces between words
IN_NAME: Final = rf"[{LETTER}+~%-]"
IN_PATH: Final = rf"[{LETTER}.@+~%-]"
FOLDER: Final = r"""[^\s\\/:*?"'<>|,;!{}\u2e80-\uffff]"""  # a character of one in Windows
OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
END: Final = rf"(?![{LETTER}])"
LOCATION: Final = r"""[^\s<>"'{}|\\^`“”„«»]{0,1000}[^\s<>"'{}|\\^`“”„«».,;:!?)\]]"""  # what follows a domain in a URL
ADDRESS: Final = re.compile(
    rf"""(?<![{LETTER}.@/\\-])(?:
        (?:[A-Za-z]:|\\\\[\w.-]{{1,60}})\\(?:{FOLDER}{{1,80}}(?:\ {FOLDER}{{1,80}}){{0,3}}\\){{0,20}}
            (?:{FOLDER}{{0,80}}[\w~$%-])?                                     # C:\x, \\server\x
      | {OCTET}(?:\.{OCTET}){{3}}(?:[:/]\d{{1,5}})?(?!\.?\d){END}             # 192.168.0.1
      | v\d{{1,5}}(?:\.\d{{1,5}}){{2,3}}(?:-[a-z]{{1,10}}(?:\.?\d{{1,5}})?)?(?!\.?\d){END}    # v1.2.3
      | (?<![<)\]])/(?:(?:etc|home|usr|var|tmp|opt|s?bin|dev|proc|mnt|srv|sys|lib)\b
            | [A-Za-z_.]{IN_PATH}{{0,80}}/(?=[\w.]))
            (?:{IN_PATH}{{0,80}}/){{0,20}}(?:{IN_PATH}{{0,80}}[\w~-])?            # /etc, /any/path
      | (?:~|\.\.?)/(?=[A-Za-z_.])(?:{IN_PATH}{{1,80}}/){{0,20}}(?:{IN_PATH}{{0,80}}[\w~-])?        # ~/x, ./x, ../x
      | (?:{IN_PATH}{{1,80}}/){{0,20}}(?:{IN_NAME}{{1,80}}\.){{1,8}}(?P<ending>[A-Za-z0-9]{{2,12}}){END}
            (?P<rest>(?::\d{{1,5}}{END})?(?:[/?\#]{LOCATION}|/)?)            # example.com/x, folder/report.pdf
      | (?:src|usr|lib|tmp|node_modules)/(?=[A-Za-z_.]){IN_PATH}{{0,80}}[\w~-]/?          # src/x
    )""",
    re.VERBOSE,
)
HINT: Final = re.compile(r"\.(?:[A-Za-z][A-Za-z0-9]|7z|(?<=\d\.)\d{1,5}\.\d)")
PATH_HINT: Final = re.compile(r"/[A-Za-z_.]")


def may_have_addresses(text: str) -> bool:
    """False for nearly all texts without one; fast."""
    return HINT.search(text) is not None or ("/" in text and PATH_HINT.search(text) is not None) or "\\" in text


def find_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each domain, file name, path and IP address of a text."""
    for found in ADDRESS.finditer(text):
        if found["ending"] is None or is_common(found[0], found["ending"], found["rest"]):
            yield found.span()


def is_common(name: str, ending: str, rest: str) -> bool:
    """Whether a word with full stops is a domain or a file: it has a common ending, in upper or lower case."""
    if not ending.islower() and not (ending.isupper() and len(ending) > 2):
        return False
    ending = ending.lower()
    if ending in WORD_DOMAINS:
        return rest.startswith("/") or name.count(".") > 1
    return ending in DOMAINS or ending in FILES
