"""Secrets of command lines: what is masked, what stays, and that the time is linear."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.masking import DEEPEST, mask_text, mask_tree, mask_words, secrets_in
from tests.linear.growth import growth

S = "hunter2-x,y&z"
"""A secret that a shell hands over whole."""


@pytest.mark.parametrize(
    ("words", "masked"),
    [
        (["--token", S], ["--token", "***"]),
        ([f"--token={S}"], ["--token=***"]),
        (["-password", S, "-n", "5"], ["-password", "***", "-n", "5"]),
        (["--hf_token", S], ["--hf_token", "***"]),
        (["--clientSecret", S], ["--clientSecret", "***"]),
        (["--password2", "5"], ["--password2", "***"]),
        ([f"API_KEY={S}"], ["API_KEY=***"]),
        (["env", f"WANDB_API_KEY={S}", "python"], ["env", "WANDB_API_KEY=***", "python"]),
        (["docker", "run", "-e", f"TOKEN={S}"], ["docker", "run", "-e", "TOKEN=***"]),
        ([f"--env=TOKEN={S}", f"-eTOKEN={S}"], ["--env=TOKEN=***", "-eTOKEN=***"]),
        ([f"+wandb.api_key={S}"], ["+wandb.api_key=***"]),
        (["--aws-secret-access-key", "/ab+c"], ["--aws-secret-access-key", "***"]),
        (["bash", "-c", "TOKEN=a; t.py --token b"], ["bash", "-c", "TOKEN=***"]),
        (["docker run -e TOKEN=ab image --db-pass cd x"], ["docker run -e TOKEN=*** image --db-pass *** x"]),
        ([f"https://me:{S}@host/data"], ["https://me:***@host/data"]),
        (["--url=postgres://u:p/w@h/db"], ["--url=postgres://u:***@h/db"]),
        (["https://abc@github.com/x"], ["https://***@github.com/x"]),
        (["gs://h/?token=ab&n=5&sig=cd"], ["gs://h/?token=***&n=5&sig=***"]),
        (["-H", "Authorization: Bearer abc"], ["-H", "Authorization: ***"]),
        (["X-Api-Key: abc", "cookie: a=b; c=d"], ["X-Api-Key: ***", "cookie: ***"]),
        (['{"token": "a b", "n": 5}'], ['{"token": "***", "n": 5}']),
        (["--name", f"hf_{'aB' * 17}"], ["--name", "***"]),
        ([f"x:ghp_{'a1' * 18}.", f"sk-{'a' * 48}", "AKIAIOSFODNN7EXAMPLE"], ["x:***.", "***", "***"]),
        (["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"], ["***"]),
        (["-----BEGIN RSA PRIVATE KEY-----\nabc\n"], ["***"]),
    ],
)  # fmt: skip
def test_a_secret_is_masked(words: list[str], masked: list[str]) -> None:
    assert list(mask_words(words)) == masked


@pytest.mark.parametrize(
    "line",
    [
        "--keystone 5", "--token-count 5", "--max-tokens 256", "--tokenizer bert", "--key-node train", "--key train",
        "--pad-token [PAD]", "--num-token=5", "tokens=256", "TOKENIZERS_PARALLELISM=false", "--foreign-key id",
        "--token-file /a/b", "--private-key ~/.ssh/id", "--credentials creds.json", "--secret-name a",
        "--use-auth-token --epochs 3", "--use-auth-token true", "--token $TOKEN", "--pass 2", "--signature serving",
        "http://host:8080/a@2x.png", "ssh://git@host/x", "gs://bucket/x?n=5", "-p 8080", "--token ./x",
        "sk-learn-contrib-experiments", "loss per token: 5", "--epochs 3 -o run", "train.py",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(line: str) -> None:
    words = line.split(" ")
    assert list(mask_words(words)) == words
    assert mask_text(line) == line
    assert secrets_in(words) == ()


def test_a_message_has_no_secret_of_the_command_line() -> None:
    known = secrets_in(["--token", "hunter2", "--password", "abc", "--pin-token", "12345", "--jwt", "hunter2-long"])
    assert known == ("hunter2-long", "hunter2")  # others are found everywhere
    assert mask_text("no file /d/hunter2-long/hunter2/abc", known) == "no file /d/***/***/abc"
    assert mask_text("Namespace(token='a b', n=3)") == "Namespace(token='***', n=3)"


def test_a_record_is_masked_as_deep_as_one_goes() -> None:
    record = {"command": ["--token", "abcd"], "auth": "x", "n": 5, "notes": [{"message": "a abcd"}], "x": ("a", None)}
    masked = {"command": ["--token", "***"], "auth": "***", "n": 5, "notes": [{"message": "a ***"}], "x": ["a", None]}
    assert mask_tree(record, ("abcd",)) == masked
    deep: object = "end"
    for _ in range(100_000):
        deep = [deep]
    assert str(mask_tree(deep)).count("[") == DEEPEST + 1


@given(st.lists(st.text("-=:/@?&'\" .tokenAKIeyJhf_0", max_size=30), max_size=4))
def test_masking_keeps_the_number_of_words_and_is_done_once(words: list[str]) -> None:
    once = mask_words(words)
    assert len(once) == len(words)
    assert mask_words(once) == once


@pytest.mark.parametrize(
    "part", ["a", "--a", "eyJ-", "http://a:", "://@", 'token="', "\"':", "x=y=", "a='", "SG.", "--token ", "a-"]
)
def test_time_is_linear(part: str) -> None:
    short, long = (part * (length // len(part)) for length in (20_000, 40_000))
    assert growth(lambda text: mask_words([text]), short, long, enough=3) < 3
