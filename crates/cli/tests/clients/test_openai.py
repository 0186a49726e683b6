"""OpenAI's own client for Python as it comes."""

from uuid import uuid4

import openai
import pytest
from pydantic import BaseModel

from cutter import cutter
from houston import KEY, URL, new_conversation, texts


def client(through: str = URL, **options: int) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{through}/compat/openai/v1", api_key=KEY, **options)


def test_waits_and_goes_on() -> None:
    api = client()
    asked = api.responses.create(model="goal", input="hello", safety_identifier=str(uuid4()))
    assert (asked.status, bool(asked.output_text)) == ("completed", True)
    assert asked._request_id and asked._request_id.startswith("req_")
    after = api.responses.create(model="goal", input="and now?", previous_response_id=asked.id)
    assert after.conversation == asked.conversation
    assert api.responses.retrieve(asked.id).output_text == asked.output_text


def test_streams_without_phantom_events() -> None:
    conversation = new_conversation()
    body = {"model": "goal", "conversation": f"conv_{conversation.id}"}
    # Slower than the heartbeats.
    with client().responses.stream(**body, input="/sim chunks=3 delay_ms=1500") as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert events[0].type == "response.created"
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    assert final.output_text == texts(conversation, "agent")[-1][1]


def test_resumes_after_drops() -> None:
    conversation = new_conversation()
    body = {"model": "goal", "conversation": f"conv_{conversation.id}"}
    begun = client().responses.create(**body, input="/sim chunks=300 delay_ms=2", background=True)
    text, after, end = "", 0, None
    with cutter(URL, cuts=8, longest=3_000, seed=5) as proxy:
        through = client(proxy.url, max_retries=0)
        while end is None:
            try:
                for event in through.responses.retrieve(begun.id, stream=True, starting_after=after):
                    assert event.sequence_number > after
                    after = event.sequence_number
                    if event.type == "response.output_text.delta":
                        text += event.delta
                    if event.type == "response.completed":
                        end = event.response
            except Exception:
                pass
    assert text == end.output_text == texts(conversation, "agent")[-1][1]


def test_a_background_stream_goes_on_where_it_was_left() -> None:
    api, conversation = client(), new_conversation()
    body = {"model": "goal", "conversation": f"conv_{conversation.id}", "input": "/sim chunks=60 delay_ms=20"}
    text, last, begun = "", None, None
    with api.responses.create(**body, background=True, stream=True) as stream:
        for event in stream:
            last = event.sequence_number
            begun = getattr(event, "response", None) or begun
            if event.type == "response.output_text.delta":
                text += event.delta
                if len(text) > 40:
                    break
    final = None
    for event in api.responses.retrieve(begun.id, stream=True, starting_after=last):
        assert event.sequence_number > last
        last = event.sequence_number
        if event.type == "response.output_text.delta":
            text += event.delta
        if event.type == "response.completed":
            final = event.response
    assert (final.status, final.background) == ("completed", True)
    assert text == final.output_text == texts(conversation, "agent")[-1][1]


class Trip(BaseModel):
    city: str
    days: int
    stops: list[str]


def test_results_are_typed() -> None:
    api, order = client(), '/sim tool=show_map args={"city":"Rome","days":1,"stops":[]}'
    parsed = api.responses.parse(model="goal", input="Rome", text_format=Trip, user=str(uuid4()))
    assert "Rome" in parsed.output_parsed.city
    messages, user = [{"role": "user", "content": order}], str(uuid4())
    tools = [openai.pydantic_function_tool(Trip, name="show_map", description="Shows a trip.")]
    body = {"model": "goal", "user": user, "tools": tools, "response_format": Trip}
    # A function and a result in one loop.
    asked = api.chat.completions.parse(**body, messages=messages).choices[0].message
    messages += [asked, {"role": "tool", "tool_call_id": asked.tool_calls[0].id, "content": "Rome is shown"}]
    done = api.chat.completions.parse(**body, messages=messages).choices[0].message
    assert "Rome is shown" in done.parsed.city
    # A function is the result.
    choice = {"type": "function", "function": {"name": "show_map"}}
    body = {"model": "goal", "user": user, "tools": tools, "tool_choice": choice}
    called = api.chat.completions.parse(**body, messages=[{"role": "user", "content": "Kyoto"}], parallel_tool_calls=False)
    [call] = called.choices[0].message.tool_calls
    assert "Kyoto" in call.function.parsed_arguments.city


def test_parameters_without_effect_are_named() -> None:
    create = client().chat.completions.with_raw_response.create
    body = {"model": "goal", "user": str(uuid4()), "messages": [{"role": "user", "content": "hello"}]}
    answer = create(**body, temperature=0.1, max_tokens=16, seed=1, store=False)
    assert answer.headers["houston-ignored-parameters"] == "seed, store"
    with pytest.raises(openai.BadRequestError, match="temperatur: is no parameter"):
        create(**body, extra_body={"temperatur": 0.1})


def test_errors_and_cancel() -> None:
    api, conversation = client(), new_conversation()
    body = {"model": "goal", "conversation": f"conv_{conversation.id}", "input": "/sim chunks=2000 delay_ms=20"}
    begun = api.responses.create(**body, background=True)
    with pytest.raises(openai.ConflictError):
        client(max_retries=0).responses.create(**body)
    assert api.responses.cancel(begun.id).status == "cancelled"
    with pytest.raises(openai.BadRequestError) as refused:
        api.responses.create(model="goal", input="hello", safety_identifier="ann", top_logprobs=3)
    assert refused.value.param == "top_logprobs"
    assert refused.value.request_id and refused.value.request_id.startswith("req_")
    with pytest.raises(openai.NotFoundError):
        api.responses.retrieve("resp_" + "0" * 32)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{URL}/compat/openai/v1", api_key="hou_no").models.list()


def test_chat_completions() -> None:
    messages = [{"role": "user", "content": "hello"}]
    done = client().chat.completions.create(model="goal", user=str(uuid4()), messages=messages)
    assert done.choices[0].message.content
    stream = client().chat.completions.create(model="goal", user=str(uuid4()), messages=messages, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
