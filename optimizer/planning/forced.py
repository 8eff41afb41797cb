"""What is otherwise chosen by cost, as users may force it: of an engine, or of one query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Forced:
    """As it is forced of a query; of an engine, of those that force nothing."""

    modes: str | Mapping[str, str] = "auto"
    execution: str = "waat"
    sharing: str = "auto"
    expiry: str = "auto"
    index: tuple[str | None, str | None] = (None, None)

    def differing(self, usual: Forced) -> dict[str, str]:
        """What differs from what the engine was told, in words."""
        words = {name: value for name, value in asdict(self).items() if value != getattr(usual, name)}
        if "index" in words:
            words["index"] = ", ".join(dict.fromkeys(kind or "auto" for kind in self.index))
        return {name: str(value) for name, value in words.items()}
