"""Keywords of a question by rules: what a model would pick out, without asking one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

MAX_KEYWORDS = 24
MAX_WORDS = 4
MAX_CHARACTERS = 10_000

_STOP_LIST = """
a about above after all among an and any are as at be been before below between both but by
calculate can could did do does during each every find for from give had has have having he her
his how i if in indicate into is it its list many me mention more most much name no not number
of on one or other our out over please provide refer refers regarding say she show shows some
state such tell than that the their them then there these they this those to under up was we
were what when where whether which while who whom whose why will with would you your
"""
STOP_WORDS = frozenset(_STOP_LIST.split())
_JOINING = frozenset({"of", "the", "and", "de"})
_QUOTED = re.compile(
    r"\"([^\"\n]{1,100})\"|(?<!\w)'([^\n]{1,100}?)'(?!\w)|[“‘]([^”’\n]{1,100})[”’]"
)
_PAUSE = re.compile(r"[.?!,;:()=\"“”]+(?:\s|\Z)|[;()=\"“”]+")
_WORD = re.compile(r"[^\W_]+(?:['’.&/-][^\W_]+)*")


def rule_keywords(*texts: str) -> tuple[str, ...]:
    """Quoted texts, runs of capitalised words, then the words and pairs of words that are left.

    At most `MAX_KEYWORDS`, the most telling kinds first.
    """
    cut = [text[:MAX_CHARACTERS] for text in texts]
    runs = [run for text in cut for run in _runs(text)]
    kinds: tuple[Iterable[str], ...] = (
        (quoted for text in cut for quoted in _quoted(text) if quoted),
        (name for run in runs for name in _names(run)),
        (pair for run in runs for pair in _pairs(run)),
        (word for run in runs for word in run if _tells(word)),
    )
    found = dict.fromkeys(keyword for kind in kinds for keyword in kind)
    return tuple(found)[:MAX_KEYWORDS]


def _quoted(text: str) -> Iterator[str]:
    for match in _QUOTED.finditer(text):
        yield next(group for group in match.groups() if group is not None).strip()


def _runs(text: str) -> Iterator[list[str]]:
    """The words of each piece between signs of punctuation."""
    for piece in _PAUSE.split(text):
        words = _WORD.findall(piece)
        if words:
            yield words


def _names(run: Sequence[str]) -> Iterator[str]:
    """Runs of capitalised words and numbers with at least one letter, as `United States`; small
    words may join them, as in `Bank of England`."""
    name: list[str] = []
    for word in (*run, ""):
        joins = bool(name) and word in _JOINING and len(name) < MAX_WORDS
        if word[:1].isupper() or word[:1].isdigit() or joins:
            name.append(word)
        else:
            yield from _trimmed(name)
            name = []


def _trimmed(name: list[str]) -> Iterator[str]:
    while name and name[-1].islower():
        name = name[:-1]
    while name and name[0].lower() in STOP_WORDS:
        name = name[1:]
    text = " ".join(name)
    if any(letter.isalpha() for letter in text):
        yield text


def _pairs(run: Sequence[str]) -> Iterator[str]:
    for first, second in itertools.pairwise(run):
        if _tells(first) and _tells(second):
            yield f"{first} {second}"


def _tells(word: str) -> bool:
    letters = any(letter.isalpha() for letter in word)
    return letters and len(word) > 1 and word.lower() not in STOP_WORDS
