"""Words in cells: those for missing values, and those for yes and no.

MISSING are missing in every column. In a column of numbers or dates, so are MORE_MISSING, which may be levels of a
category ("unknown", "none"). Capitals and spaces around make no difference for the latter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# what Arrow, pandas and R write or read as missing
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "n/a", "nan", "null",
)  # fmt: skip
MORE_MISSING = frozenset(
    (
        *(word.lower() for word in MISSING), "-", "--", "---", "–", "—", ".", "..", "...", "?", "??", "none",
        "nil", "unknown", "unk", "missing", "not available", "not applicable", "not known", "n.a.", "n.a", "na.", "tbd",
        "tba", "nat", "no data", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!", "(null)", "(blank)",
        "undefined", "unbekannt", "k.a.", "k. a.", "keine angabe", "keine", "fehlt", "entfällt", "inconnu", "nd",
        "n.d.", "nc", "n.c.", "desconocido", "s/d", "onbekend", "nvt", "n.v.t.", "sconosciuto", "brak",
    )
)  # fmt: skip
YES_NO = (
    ("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"), ("on", "off"), ("ja", "nein"), ("j", "n"), ("ja", "nee"),
    ("wahr", "falsch"), ("oui", "non"), ("o", "n"), ("vrai", "faux"), ("sí", "no"), ("si", "no"), ("sì", "no"),
    ("s", "n"), ("sim", "não"), ("sim", "nao"), ("ja", "nej"), ("ja", "nei"), ("kyllä", "ei"), ("tak", "nie"),
    ("ano", "ne"), ("igen", "nem"), ("да", "нет"), ("evet", "hayır"), ("是", "否"), ("はい", "いいえ"),
)  # fmt: skip
_CODE = re.compile(r"[A-Z]{2}")
_FEWEST_CODES, _MOST_OTHERS = 3, 0.1


def folded(cell: str) -> str:
    return cell.strip().casefold()


def words_of(levels: Iterable[str] | None) -> list[str]:
    """The words for missing values in a column with these levels: not "NA" among codes of two capitals.

    >>> "NA" in words_of(["DE", "FR", "IT", "NA"]), "NA" in words_of(["red", "green", "blue", "NA"])
    (False, True)
    """
    others = [level for level in levels or () if folded(level) not in MORE_MISSING]
    codes = sum(_CODE.fullmatch(level) is not None for level in others)
    kept = codes >= _FEWEST_CODES and codes >= (1 - _MOST_OTHERS) * len(others)
    return [word for word in MISSING if not (kept and word == "NA")]


def yes_and_no(levels: Iterable[str]) -> tuple[str, str] | None:
    """The pair of words for yes and no that a column consists of, in small letters; None if it does not.

    >>> yes_and_no(["No", "yes", "NO "]), yes_and_no(["yes", "no", "perhaps"])
    (('yes', 'no'), None)
    """
    found = {folded(level) for level in levels}
    return next((pair for pair in YES_NO if found == set(pair)), None)
