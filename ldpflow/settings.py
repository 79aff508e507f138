"""What problems, mechanisms, algorithms and interval methods have in common: named settings."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["Settings", "canonical_json"]


class Settings(BaseModel):
    """One point of one axis group of a study: a kind and its settings, validated and immutable.

    A subclass declares ``kind`` as a Literal with its default, and its settings as fields. Every
    scalar field may be a list in a study file; a field that is itself a vector is a tuple.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: str

    def key_settings(self) -> dict[str, Any]:
        """Kind and the settings that differ from their defaults.

        Settings at their default are left out so that a later version may add one without
        changing the meaning, and the key, of stored results.
        """
        return {"kind": self.kind, **self.model_dump(exclude_defaults=True, exclude={"kind"})}


def canonical_json(value: object) -> str:
    """JSON with sorted keys, no blanks and floats by ``repr``: equal meanings, equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
