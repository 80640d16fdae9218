"""The parser of kernel names: real names, any text, names cut off, and what may be added without a difference."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tcprobe.analysis.kernels.cxx import KernelName, parse, readable, split_list
from tcprobe.analysis.kernels.verdict import classify
from tests.analysis.kernels.examples import NAMES
from tests.analysis.kernels.grammar_examples import GRAMMAR_NAMES
from tests.linear.growth import growth, spent

PLAIN = [name for name, _, _ in NAMES + GRAMMAR_NAMES]
# what may stand before, around or behind a function without saying anything of it
NASTY = [
    "gemm",
    "mma",
    "conv",
    "Tensor",
    "wgmma",
    "attention",
    "flash",
    "matmul",
    "moe",
    "softmax",
    "copy",
    "f16",
    "a_b",
]
RESULTS = [
    "void",
    "float",
    "unsigned char",
    "cutlass::half_t",
    "gemm::Tensor<mma::Op<16>, 3>",
    "std::enable_if<(sizeof(T)>(4)), void>::type",
    "std::enable_if<T2>(int)0&&wmma::exists<T1>::value, void>::type",
    "typename std::enable_if<T2<(int)4, mma>::type",
    "decltype(gemm(1))",
]
# types that say neither how a kernel computes nor on what
ARGUMENTS = ["4", "(bool)0", "false", "int", "my::gemm::Policy<2>", "Tensor", "conv::Shape<3, 3>", "{lambda(int)#1}"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("volta_sgemm_128x64_nn", (None, (), "volta_sgemm_128x64_nn", None, None, "")),
        ("f(float*)", (None, (), "f", None, "float*", "")),
        ("void a::b<1>::f<int, c<2>>(T1*) const", ("void", ("a", "b<1>"), "f", "int, c<2>", "T1*", " const")),
        ("unsigned char g<(x > 3)>(int)", ("unsigned char", (), "g", "(x > 3)", "int", "")),
        ("void (anonymous namespace)::f(int)", ("void", ("(anonymous namespace)",), "f", None, "int", "")),
        ("void <unnamed>::f<T>(T2)", ("void", ("<unnamed>",), "f", "T", "T2", "")),
        ("f(int)::{lambda(int)#1}::operator()(int) const",
         (None, ("f(int)", "{lambda(int)#1}"), "operator()", None, "int", " const")),
        ("f()::'lambda'(int)::operator()<a>(int)", (None, ("f()", "'lambda'(int)"), "operator()", "a", "int", "")),
        ("bool a::operator<(a)", ("bool", ("a",), "operator<", None, "a", "")),
        ("a::operator bool(a)", (None, ("a",), "operator bool", None, "a", "")),
        ("void x::operator<< <int>(int)", ("void", ("x",), "operator<<", "int", "int", "")),
        ("wrapped_transpose.kd", (None, (), "wrapped_transpose.kd", None, None, "")),
        ("f(int) [clone .kd]", (None, (), "f", None, "int", " [clone .kd]")),
        ("f [clone .kd]", (None, (), "f", None, None, " [clone .kd]")),
        ("std::enable_if<!T7, void>::type a::f<int>(T1)",
         ("std::enable_if<!T7, void>::type", ("a",), "f", "int", "T1", "")),
        ("std::enable_if<T2>(int)0&&v::c<T1>::e, void>::type v::f<a, (int)8>(T1 *)",
         ("std::enable_if<T2>(int)0&&v::c<T1>::e, void>::type", ("v",), "f", "a, (int)8", "T1 *", "")),
        ("decltype(auto) f<int>(T1)", ("decltype(auto)", (), "f", "int", "T1", "")),
        ("void a::f<b<int, c::(anonymo", ("void", ("a",), "f", "b<int, c::(anonymo", None, "")),
        ("void a::f<int>(float, b<in", ("void", ("a",), "f", "int", "float, b<in", "")),
        ("", (None, (), "", None, None, "")),
    ],
)  # fmt: skip
def test_reads_the_parts_of_names(text: str, parts: tuple[object, ...]) -> None:
    name = parse(text)
    assert (name.result, name.scopes, name.function, name.arguments, name.parameters, name.suffix) == parts


@pytest.mark.parametrize("text", [n for n in PLAIN if not n.startswith("_Z")], ids=lambda n: n[:60])
def test_the_parts_of_real_names_give_them_back(text: str) -> None:
    assert str(parse(text)) == text


@given(st.one_of(st.text(max_size=200), st.text(alphabet="ab<>(){}[]:, -*&'o", max_size=80)))
def test_any_text_has_parts_that_give_it_back(text: str) -> None:
    """Brackets that a cut left open are closed, and blanks before brackets dropped."""
    assume(not text.startswith("_Z"))
    again, given = ("".join(t.split()) for t in (str(parse(text)), text))
    assert again.startswith(given)
    assert again[len(given) :] in ("", ">", ")", "]", "}")


@given(st.text(alphabet="_ZNILEKSTPv0123456789abfd.", max_size=80))
def test_any_mangled_text_is_read(text: str) -> None:
    assert isinstance(parse("_Z" + text), KernelName)


@pytest.mark.parametrize("name", [n for n in PLAIN if len(n) > 30][::5], ids=lambda n: n[:60])
def test_a_name_cut_off_anywhere_is_read(name: str) -> None:
    for end in range(len(name)):
        assert str(parse(name[:end])).replace(" ", "").startswith(name[:end].replace(" ", "")) or name.startswith("_Z")


@given(
    st.lists(st.sampled_from(["int", "a<b, c>", "f(x, y)", "(a < b)", "{lambda(int, int)#1}", "(int)3"]), min_size=1)
)
def test_lists_are_split_at_their_own_commas(items: list[str]) -> None:
    assert split_list(", ".join(items)) == items


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_Z3fooPfi", "foo(float, int)"),
        ("_ZN2at6native9my_kernelILi4EfEEvPT0_", "at::native::my_kernel<4, float>(_)"),
        ("_ZN7cutlass7Kernel2I9gemm_nameEEvNT_6ParamsE", "cutlass::Kernel2<gemm_name>(_::Params)"),
        ("_ZN1a1bINS_1cEEENSt9enable_ifIXsrS1_1vEvE4typeEPKhS3_", "a::b<a::c>(unsigned char, _)"),
        ("_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo(void)"),
        ("_ZN1a3foo.kd", "a::foo"),
        ("_Z", ""),
    ],
)
def test_reads_mangled_names(text: str, expected: str) -> None:
    assert readable(text) == expected


def test_reads_long_names_in_linear_time() -> None:
    """Ten times the text takes about ten times as long; quadratic work would take a hundred times."""
    texts = ("<", "(", "f<(", " () ", "a::", "operator ", "x ", ", ", "enable_if<>::type x", "_ZN", "_ZI3foo", "_ZPK")
    for text in texts:
        short, long = ((text * (size // len(text) + 1))[:size] for size in (10_000, 100_000))
        assert spent(_read, long) < 0.08 or growth(_read, short, long, enough=40) < 40, text


def _read(text: str) -> None:
    str(parse(text))
    split_list(text)


def scoped(name: KernelName, scope: str) -> str:
    return str(KernelName(name.result, (scope, *name.scopes), *parts_behind(name)))


def parts_behind(name: KernelName) -> tuple[str, str | None, str | None, str]:
    return name.function, name.arguments, name.parameters, name.suffix


# a CUDA graph is no name, and has no parts
KERNELS = [parse(n) for n in PLAIN if not n.startswith(("_Z", "CudaGraph"))]
BY_FIRST_ARGUMENT = "router_gemm_kernel"  # two libraries have one; of these only one has a type there


def test_a_scope_never_changes_a_verdict() -> None:
    changed = [(str(n), scope) for n in KERNELS for scope in NASTY if _told(scoped(n, scope)) != _told(str(n))]
    assert not changed


def test_a_result_type_never_changes_a_verdict() -> None:
    others = ((n, KernelName(result, n.scopes, *parts_behind(n))) for n in KERNELS for result in RESULTS)
    assert not [str(other) for name, other in others if _told(str(other)) != _told(str(name))]


def test_a_template_argument_that_names_no_instruction_never_changes_a_verdict() -> None:
    for name in KERNELS:
        for argument in ARGUMENTS if name.arguments or name.function != BY_FIRST_ARGUMENT else ():
            arguments = argument if name.arguments is None else f"{name.arguments}, {argument}"
            longer = KernelName(name.result, name.scopes, name.function, arguments, name.parameters, name.suffix)
            assert _told(str(longer)) == _told(str(name)), longer


@pytest.mark.parametrize("parameters", ["", "double, gemm", "mma::Params, char const*", "HMMA, Tensor, wgmma"])
def test_parameters_never_change_a_verdict(parameters: str) -> None:
    """But for the types of CUDA's own matrix instructions."""
    for name in KERNELS:
        if "wmma::" not in (name.parameters or ""):
            other = KernelName(name.result, name.scopes, name.function, name.arguments, parameters, "")
            assert classify(str(other)).uses_tc == classify(str(name)).uses_tc, other


@given(st.lists(st.sampled_from([*NASTY, "void", "cast", "12"]), min_size=1, max_size=6).map("_".join))
def test_the_words_of_a_function_count_wherever_it_stands(function: str) -> None:
    assert _told(f"void x::{function}<1>(int)") == _told(function)


def _told(text: str) -> tuple[str, str | None]:
    verdict = classify(text)
    return verdict.uses_tc, verdict.rule
