"""Names of collections: what a caller may use.

Letters, marks and digits of any script, `-` and `_`, 1 to 255 characters, beginning with a letter, a digit or `_`. No
slashes, dots or spaces: a name must never look like a path. A name is in Unicode's composed form (NFC), because two
names that look the same must not be two collections; one that is not is refused, not changed. Upper and lower case
differ. Files are not called by these names (see `catalog`), so no file system has a say.
"""

from __future__ import annotations

import unicodedata

from ..errors import ParameterError

__all__ = ["check_name"]

_MAX = 255
_SIGNS = "-_"


def check_name(name: object, *, what: str = "name") -> str:
    """The name, if it is one.

    >>> check_name("photos-2026"), check_name("Fotos_für_später")
    ('photos-2026', 'Fotos_für_später')
    >>> check_name("a/b")
    Traceback (most recent call last):
    lethevec.errors.ParameterError: name: expected letters, digits, - and _ only, got '/' in 'a/b'
    """
    if not isinstance(name, str):
        raise ParameterError(f"{what}: expected the name of a collection as a string, got {type(name).__name__}")
    if not 0 < len(name) <= _MAX:
        raise ParameterError(f"{what}: expected 1 to {_MAX} characters, got {len(name)}: {name!r:.80}")
    for letter in name:
        if letter not in _SIGNS and unicodedata.category(letter)[0] not in "LN" and not unicodedata.combining(letter):
            raise ParameterError(f"{what}: expected letters, digits, - and _ only, got {letter!r} in {name!r:.80}")
    if name[0] == "-" or unicodedata.combining(name[0]):
        raise ParameterError(f"{what}: expected it to begin with a letter, a digit or _, got {name!r:.80}")
    if unicodedata.normalize("NFC", name) != name:
        raise ParameterError(f"{what}: expected Unicode's composed form (NFC), got another in {name!r:.80}")
    return str(name)
