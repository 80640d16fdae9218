"""`explain` as a function: the documentation of rules, and the GPUs to predict for."""

from __future__ import annotations

from tcprobe.errors import UsageError
from tcprobe.hardware import load_gpus
from tcprobe.rules.docs import DOCS
from tcprobe.rules.docs.base import RuleDoc
from tcprobe.rules.registry import RETIRED

GPUS = "gpus"


def find_rule(word: str) -> RuleDoc:
    """Return the rule with this code or name, in upper or lower case.

    Raises:
        UsageError: there is none; the message names the nearest codes.
    """
    from difflib import get_close_matches

    wanted = word.strip().lower()
    for doc in DOCS:
        if wanted in (doc.code.lower(), doc.name):
            return doc
    names = {name: doc.code for doc in DOCS for name in (doc.code.lower(), doc.name)} | {GPUS: GPUS}
    starting = [code for name, code in names.items() if wanted and name.startswith(wanted)]
    close = [*starting, *(names[name] for name in get_close_matches(wanted, names, n=5))]
    near = list(dict.fromkeys(close))[:5]
    lists = "tcprobe explain lists the rules, tcprobe explain gpus the GPUs"
    hint = f"did you mean {', '.join(near)}?" if near else lists
    raise UsageError(f"nothing is called {word!r}", hint)


def explanation(what: str | None, format_: str = "text", width: int | None = None) -> str:
    """Return the explanation of a rule or the list of GPUs; without a word, the list of rules.

    Args:
        what: code or name of a rule, or ``gpus``, in upper or lower case; None for all rules.
        format_: text or markdown.
        width: columns for text; None leaves tables unlimited.

    Raises:
        UsageError: the word is none of these; the message names the nearest.
    """
    from tcprobe.report.audit import explain as audit_explain

    markdown = format_ == "markdown"
    if what is None:
        return audit_explain.rule_list(DOCS, markdown, width)
    if what.strip().lower() == GPUS:
        return audit_explain.gpu_list(load_gpus(), markdown, width)
    code = what.strip().upper()
    if code in RETIRED:
        return f"{code} is retired: {RETIRED[code]}.\nWhat silences it may stay, and its code is not used again.\n"
    return audit_explain.rule_text(find_rule(what), markdown, width)
