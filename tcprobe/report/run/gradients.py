"""What `--numerics` found: whether float16 needs a scaled loss, in a sentence, and the table of gradients."""

from __future__ import annotations

from typing import Final

from tcprobe import formatting as f
from tcprobe.report.fields import field_of, name_of, number_of
from tcprobe.report.run.time_views import View
from tcprobe.schema.profile import GradientLoss, LossScaleNeed

GRADIENT_VIEW: Final = View(
    "gradients",
    "Gradients in float16",
    (
        name_of("layer", "layer"),
        field_of("weight", "weight"),
        number_of("zero in float16", "zero_pct"),
        number_of("subnormal", "subnormal_pct"),
        number_of("infinite", "infinite_pct"),
        field_of("at scale", "scale", 1, lambda scale: f.full_number(float(scale or 0), 7), right=True),
        number_of("zero anyway", "zeros", 2),
        number_of("values looked at", "values", 1),
        number_of("of", "size", 2),
        number_of("updates", "updates", 1),
    ),
    order=("zero_pct", "subnormal_pct"),
)


_BECOME: Final[dict[GradientLoss, str]] = {
    "gone": "vanish",
    "subnormal": "lose digits as subnormals",
    "infinite": "are infinite or NaN",
    "zero": "are 0",
}


def loss_scale_sentence(need: LossScaleNeed) -> str:
    """Return whether float16 needs a scaled loss, and on what that rests."""
    scale, bare = f.full_number(need.scale, 7), need.scale == 1.0
    share = f"{f.percent(need.pct)} of {need.layer}'s gradient values {_BECOME[need.what]}"
    least = "at least " if need.half else ""
    answer = {
        "lost": "Needs loss scaling" if bare else f"Loss scale {scale} is too small",
        "coarse": "Loss scaling would help" if bare else f"A loss scale above {scale} would help",
        "overflows": "Overflows float16 without loss scaling" if bare else f"Loss scale {scale} is too large",
    }
    if need.kind == "holds":
        said = f"Needs its loss scaling: at scale 1 {least}{share} in float16; at the {scale} used {_kept(need)}"
    elif need.kind == "no_need":
        most = "and of no layer more"
        said = f"Its weights' gradients need no loss scaling: at scale 1 {least}{share} in float16, {most}"
    elif need.kind == "unseen":
        said = f"{share}, in float16 maybe vanished ones: profile a float32 run to know whether it needs loss scaling"
    else:
        said = f"{answer[need.kind]}: {share} in float16{_better(need)}"
    part = "" if need.looked_pct == 100.0 else f", {f.percent(need.looked_pct)} of the values"
    return f"{said} ({f.many(need.updates, 'update')}{part})."


def _better(need: LossScaleNeed) -> str:
    """Return what a better scale would keep, where one is known."""
    if need.better in (None, need.scale) or need.better_gone_pct is None:
        return ""
    gone = "none vanish" if need.better_gone_pct == 0.0 else f"at most {f.percent(need.better_gone_pct)} vanish"
    coarse = need.better_subnormal_pct
    also = f" and at most {f.percent(coarse)} are subnormal" if coarse else ""
    overflow = "none overflow, " if need.kind == "overflows" else ""
    return f"; at {f.full_number(need.better or 0.0, 9)} {overflow}{gone}{also}"


def _kept(need: LossScaleNeed) -> str:
    """Return what becomes of the gradients at the scale used; of a float16 run vanished values are among its zeros."""
    coarse = f"{f.percent(need.subnormal_pct)} of a layer's at most are subnormal"
    if need.half:
        return f"{coarse}; of what is 0 (up to {f.percent(need.gone_pct)} of a layer's) it does not tell"
    return f"{f.percent(need.gone_pct)} of a layer's at most vanish" if need.gone_pct else f"none vanish, {coarse}"
