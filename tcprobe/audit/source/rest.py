"""What of a file does not run, as far as is known: looked at once, so that its expressions are known as well."""

from __future__ import annotations

from typing import Final

from tcprobe.audit.source.functions import Functions
from tcprobe.audit.source.seen import Skipped
from tcprobe.audit.source.state import Interpreter, SpentError, State
from tcprobe.audit.source.values.kinds import Arguments, Instance, Routine

_MOST_STEPS: Final = 20_000


class Rest:
    """Looks at functions that nothing entered, and at branches that were not taken."""

    def __init__(self, state: State, functions: Functions, interpreter: Interpreter) -> None:
        self._state = state
        self._functions = functions
        self._interpreter = interpreter

    def look(self) -> None:
        """Look at all that was not reached; what that defines or leaves out comes next."""
        state = self._state
        state.frames, state.calling, state.returned, state.conditions = [], [], [[]], 0
        state.doubts = []
        state.most_steps = state.steps + _MOST_STEPS
        while state.env.parent is not None:
            state.env = state.env.parent
        try:
            while (skipped := self._not_followed()) or (routines := self._not_entered()):
                for piece in skipped or routines:
                    self._look(piece)
        except (SpentError, RecursionError):
            state.aside = False
            state.seen.cut = state.seen.cut or "the file is too long to be followed to its end"

    def _not_followed(self) -> list[Skipped]:
        seen = self._state.seen
        return [skipped for first, skipped in seen.skipped.items() if first not in seen.reached]

    def _not_entered(self) -> list[Routine]:
        return [r for node, r in self._state.routines.items() if node not in self._functions.entered]

    def _look(self, piece: Skipped | Routine) -> None:
        with self._state.looking(piece.env):
            if isinstance(piece, Skipped):
                self._interpreter.run(piece.body)
                return
            bound = Instance(piece.holder, {}) if piece.holder is not None else piece.bound
            self._functions.enter(Routine(piece.node, piece.env, bound, piece.holder), Arguments([], {}))
