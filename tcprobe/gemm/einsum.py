"""Matrix multiplications of an Einsum with two operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcprobe.schema.op import UNKNOWN_GEMM, Contiguous, Gemm, OpRecord, Shape, Size, product

ELLIPSIS_LABELS = "αβγδεζηθ"  # labels for the dimensions that "..." covers, aligned to the right


def einsum_gemms(op: OpRecord) -> list[Gemm]:
    """Return the multiplication of a two-operand Einsum; an empty list if it multiplies no matrices.

    Labels in both operands and the result are batch; in both operands only, contracted; in one operand and the
    result, rows (left) or columns (right). An equation with one operand, or without a contracted label, multiplies
    no matrices. Without the equation, or if an operand repeats a label, the sizes are unknown.
    """
    equation = op.attributes.get("equation")
    if isinstance(equation, str) and "->" in equation and equation.split("->", 1)[0].count(",") != 1:
        return []
    labels = labels_of(op)
    if labels is None:
        return [UNKNOWN_GEMM]
    sizes, roles = _sizes(labels, (op.shape(0), op.shape(1), op.output_shape)), roles_of(labels)
    if "k" not in roles.values():
        return []
    m, n, k, b = (product(sizes.get(label) for label, role in roles.items() if role == r) for r in "mnkb")
    found = [
        Contiguous(roles.get(text[-1], "b"), product(sizes.get(c) for c in innermost(text, roles)))
        for text in labels
        if text
    ]
    return [Gemm(m, n, k, b, tuple(c for c in found if c.role in "mnk"))]


def labels_of(op: OpRecord) -> tuple[str, str, str] | None:
    """Return the labels of both operands and of the result, with ``...`` spelled out; None if they are not known."""
    equation = op.attributes.get("equation")
    if not isinstance(equation, str) or "->" not in equation:
        return None
    inputs, result = equation.replace(" ", "").split("->", 1)
    operands = inputs.split(",")
    if len(operands) != 2:
        return None
    a, b = (_expand(text, op.shape(index)) for index, text in enumerate(operands))
    if a is None or b is None or any(len(set(text)) < len(text) for text in (a, b)):
        return None
    covered = max((a, b), key=lambda text: sum(c in ELLIPSIS_LABELS for c in text))
    return a, b, result.replace("...", "".join(c for c in covered if c in ELLIPSIS_LABELS))


def _expand(labels: str, shape: Shape | None) -> str | None:
    """Give every dimension a label; None if the rank is unknown or does not match."""
    if "..." not in labels:
        return labels if shape is None or len(shape) == len(labels) else None
    if shape is None:
        return None
    count = len(shape) - len(labels) + 3
    if not 0 <= count <= len(ELLIPSIS_LABELS):
        return None
    return labels.replace("...", ELLIPSIS_LABELS[len(ELLIPSIS_LABELS) - count :])


def _sizes(labels: Sequence[str], shapes: Sequence[Shape | None]) -> dict[str, Size]:
    sizes: dict[str, Size] = {}
    for text, shape in zip(labels, shapes, strict=True):
        for label, size in zip(text, shape or (), strict=False):
            known = sizes.get(label)
            sizes[label] = size if known is None or (known == 1 and size is not None) else known
    return sizes


def roles_of(labels: tuple[str, str, str]) -> dict[str, str]:
    """Return the role of each label in the operands: m, n, k, b(atch), or s(ummed out of one operand)."""
    a, b, c = labels
    roles = {label: ("m" if label in a else "n") if label in c else "s" for label in dict.fromkeys(a + b)}
    return roles | {label: "b" if label in c else "k" for label in roles if label in a and label in b}


def innermost(text: str, roles: Mapping[str, str]) -> str:
    """Return the trailing labels that share one role, and so are contiguous in memory together."""
    role = roles.get(text[-1], "b")
    count = next((i for i, label in enumerate(reversed(text)) if roles.get(label, "b") != role), len(text))
    return text[len(text) - count :]
