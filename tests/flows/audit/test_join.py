"""What the source shows besides the models that were traced: each layer counts once."""

from __future__ import annotations

from msgspec.structs import replace

from tcprobe.flows.audit.models import UNREACHED, join, with_unreached
from tcprobe.schema.model import Layer, Model, Place, Product, Unseen
from tcprobe.schema.op import OpRecord

FILE = "/home/me/train.py"


def dense(line: int, given: int | None, units: int | None, file: str = FILE) -> Layer:
    shapes = ((None, given),)
    name = f"dense_{line}_{units}"
    return Layer(name, "Dense", "Dense", Place(file, line), input_shapes=shapes, output_shape=(None, units))


def model(mode: str, *layers: Layer, unseen: tuple[Unseen, ...] = ()) -> Model:
    record = OpRecord("MatMul", (), None, {}, "float32", "forward")
    products = tuple(Product(record, layer.name) for layer in layers)
    return Model(mode, "train.py", FILE, layers=layers, products=products, unseen=unseen)  # type: ignore[arg-type]


def sizes(models: list[Model]) -> list[list[int | None]]:
    return [[(layer.output_shape or ())[-1] for layer in one.layers] for one in models]


def test_lines_that_were_not_traced_follow_with_their_products_and_say_so() -> None:
    traced, read = model("traced", dense(4, 64, 8)), model("source", dense(4, 64, 8), dense(9, 64, 16))
    first, rest = join([traced], [read])
    assert first == traced
    assert sizes([rest]) == [[16]]
    assert [product.layer for product in rest.products] == ["dense_9_16"]
    assert "read from the source" in rest.notes[-1]


def test_nothing_follows_where_all_was_traced() -> None:
    traced = model("traced", dense(4, 64, 8), dense(5, 8, 8))
    assert join([traced], [model("source", dense(4, 64, 8), dense(5, 8, 8))]) == [traced]
    assert join([traced], [model("source", dense(4, 64, None), dense(5, None, 8))]) == [traced]


def test_other_sizes_of_a_traced_line_follow_where_the_source_has_the_traced_ones_too() -> None:
    traced = [model("traced", dense(4, 64, 8))]
    read = [model("source", dense(4, 64, 8), dense(4, 64, 16), dense(4, 64, 24))]
    assert sizes(join(traced, read)) == [[8], [16, 24]]


def test_a_line_of_which_the_source_has_other_sizes_alone_is_named_and_not_judged() -> None:
    (found,) = join([model("traced", dense(4, 64, 8))], [model("source", dense(4, 64, 16))])
    assert sizes([found]) == [[8]]
    assert "(4): they are not judged" in found.notes[-1]


def test_a_line_whose_products_alone_were_traced_does_not_follow() -> None:
    traced = model("traced", dense(4, 64, 8))
    products = tuple(replace(product, place=Place(FILE, 4)) for product in traced.products)
    assert len(join([replace(traced, layers=(), products=products)], [model("source", dense(4, 64, 8))])) == 1


def test_what_was_not_seen_of_a_traced_line_does_not_follow() -> None:
    unseen = tuple(Unseen(f"line {line}", "unknown", Place(FILE, line)) for line in (4, 9))
    read = [model("source", dense(4, 64, 8), dense(9, 64, 16), unseen=unseen)]
    assert [one.what for one in join([model("traced", dense(4, 64, 8))], read)[1].unseen] == ["line 9"]


def test_other_layers_of_the_file_are_named_where_its_import_went_through() -> None:
    read = [model("source", dense(4, 64, 8), dense(9, 64, 16), dense(2, 64, 16, "/home/me/other.py"))]
    first, second = with_unreached([model("traced", dense(4, 64, 8)), model("traced", dense(5, 8, 8))], read)
    assert [(one.what, one.reason, one.place) for one in first.unseen] == [
        ("Dense 'dense_9_16'", UNREACHED, Place(FILE, 9))
    ]
    assert second.unseen == ()
    assert replace(first, unseen=()) == model("traced", dense(4, 64, 8))
