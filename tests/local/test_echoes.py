"""What a prompt hook saw is evidence for the delivery whose mark it holds, and for no other."""

from __future__ import annotations

from fleettrio.local.echoes import MOST, Echoes, carries_frame
from fleettrio.local.frame import frame
from tests.local.test_frame import FACTS


def test_a_prompt_with_the_nonce_of_a_delivery_is_its_echo_once() -> None:
    echoes = Echoes()
    event = echoes.expect("a1b2c3d4")

    assert echoes.heard("hello [fleettrio ffffffff] message") == ()
    assert not event.is_set()
    assert echoes.heard(
        '\n\n<pasted_content id="74d4">\n[fleettrio a1b2c3d4] message 9f21\n│ hi\n[fleettrio a1b2c3d4] end'
    ) == ("a1b2c3d4",)
    assert event.is_set()
    assert echoes.heard("[fleettrio a1b2c3d4] again") == ()


def test_a_typed_notice_is_echoed_by_the_short_id_in_it() -> None:
    echoes = Echoes()
    event = echoes.expect("9f21")

    assert echoes.heard("fleettrio: message 9f21 waits in your inbox, read it: fleettrio show 9f21 --framed") == (
        "9f21",
    )
    assert event.is_set()


def test_marks_that_never_came_back_do_not_pile_up() -> None:
    echoes = Echoes()
    for number in range(MOST + 10):
        echoes.expect(f"{number:08x}")

    assert echoes.heard("[fleettrio 00000000] x") == ()
    assert echoes.heard(f"[fleettrio {MOST + 9:08x}] x") == (f"{MOST + 9:08x}",)


def test_a_prompt_that_carries_a_frame_was_typed_by_no_person_though_its_nonce_is_unknown() -> None:
    text = frame(FACTS, "hello")
    assert carries_frame(text.framed)
    assert carries_frame(text.notice)
    assert carries_frame(f"\n\n<pasted_content>\n{text.framed}")
    assert not carries_frame("what does fleettrio do? it says [fleettrio x] somewhere")
    assert not carries_frame("please look at src/a.py")
