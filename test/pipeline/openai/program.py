"""Calls the model API with the `openai` package of its interpreter, as the documentation of the package has it.

Prints the version of the package first. Then each line of JSON on standard input is a call. For each call, in any
order, it prints a line with the result or the error that a program would see.
"""

import asyncio
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import openai


# One client of each kind for all calls, because making a client costs more than a call.
plain_client = openai.OpenAI(api_key="none")
async_client = openai.AsyncOpenAI(api_key="none")


def open_resource(api, client, call):
    options = {"base_url": call["baseUrl"], "api_key": call.get("apiKey", "none"), "max_retries": call["maxRetries"]}
    return api.open(client.with_options(**options))


class Responses:
    question = {"model": "m", "input": "hi"}

    @staticmethod
    def open(client):
        return client.responses

    @staticmethod
    def note_event(event, notes):
        notes["events"].append(event.type)
        if event.type == "response.output_text.delta":
            notes["text"] += event.delta
        if event.type == "response.failed":
            notes["failed"] = event.response.to_dict(mode="json")

    note_helper_event = note_event

    @staticmethod
    def get_final(stream):
        return stream.get_final_response()

    @staticmethod
    def note_whole(response, notes):
        notes["text"] = response.output_text
        notes["result"] = response.status


class Chat:
    question = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}

    @staticmethod
    def open(client):
        return client.chat.completions

    @staticmethod
    def note_event(chunk, notes):
        notes["events"].append("chunk")
        if chunk.choices:
            notes["text"] += chunk.choices[0].delta.content or ""

    @staticmethod
    def note_helper_event(event, notes):
        if event.type == "chunk":
            Chat.note_event(event.chunk, notes)

    @staticmethod
    def get_final(stream):
        return stream.get_final_completion()

    @staticmethod
    def note_whole(completion, notes):
        notes["text"] = completion.choices[0].message.content
        notes["result"] = completion.choices[0].finish_reason


APIS = {"responses": Responses, "chat": Chat}


def compose_request(api, call):
    headers = dict(call["headers"])
    if "apiKey" not in call:
        # In the client's default_headers, version 3 takes this for a key that was forgotten.
        headers["Authorization"] = openai.Omit()
    body = {"metadata": call["metadata"]} if "metadata" in call else {}
    return {**api.question, "extra_headers": headers, "extra_body": body}


def ask(call, notes):
    api = APIS[call["api"]]
    resource = open_resource(api, plain_client, call)
    request = compose_request(api, call)
    if call["way"] == "create":
        api.note_whole(resource.create(**request), notes)
    elif call["way"] == "iterate":
        with resource.create(**request, stream=True) as stream:
            for event in stream:
                api.note_event(event, notes)
                if len(notes["events"]) == call.get("leaveAfter"):
                    break
    else:
        with resource.stream(**request) as stream:
            for event in stream:
                api.note_helper_event(event, notes)
            api.note_whole(api.get_final(stream), notes)


async def ask_async(call, notes):
    api = APIS[call["api"]]
    resource = open_resource(api, async_client, call)
    request = compose_request(api, call)
    if call["way"] == "create":
        api.note_whole(await resource.create(**request), notes)
    elif call["way"] == "iterate":
        async with await resource.create(**request, stream=True) as stream:
            async for event in stream:
                api.note_event(event, notes)
                if len(notes["events"]) == call.get("leaveAfter"):
                    break
    else:
        async with resource.stream(**request) as stream:
            async for event in stream:
                api.note_helper_event(event, notes)
            api.note_whole(await api.get_final(stream), notes)


def describe(error):
    body = getattr(error, "body", None)
    response = getattr(error, "response", None)
    facts = {
        "name": type(error).__name__,
        "message": str(error),
        "status": getattr(error, "status_code", None),
        "code": getattr(error, "code", None),
        "type": getattr(error, "type", None),
        "reason": body.get("x_service_error_code") if isinstance(body, dict) else None,
        "retryAfter": response.headers.get("retry-after") if response is not None else None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def serve(line, loop, lock):
    number, client, call = json.loads(line)
    notes = {"text": "", "events": []}
    try:
        if client == "AsyncOpenAI":
            asyncio.run_coroutine_threadsafe(ask_async(call, notes), loop).result()
        else:
            ask(call, notes)
    except Exception as error:  # the outcome, whatever it is
        notes["raised"] = describe(error)
    with lock:
        print(json.dumps([number, notes]), flush=True)


def main():
    print(openai.__version__, flush=True)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    lock = threading.Lock()
    # More threads than calls at a time, so that no call waits for another.
    with ThreadPoolExecutor(max_workers=128) as pool:
        for line in sys.stdin:
            pool.submit(serve, line, loop, lock)


main()
