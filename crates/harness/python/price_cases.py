"""Writes calls with their costs by genai-prices, one JSON object per line: price_cases.py FILE [--recordings FOLDER] [--dataset FILE]

The response bodies are generated from the package's description of each API flavour, the same ones in every run: every
provider, flavour and model, with caches, tiers, prices that depend on the day or hour, and terms of billing. With
recordings, the recorded responses of providers are priced as well; with a dataset in the format of genai-prices'
`tests/dataset/usages.json`, the bodies in it.
"""

import argparse
import datetime
import itertools
import json
import pathlib
import random

from dump_prices import PROVIDERS
from genai_prices import calc_price, extract_usage, types
from genai_prices.data import providers

SEED = 20261122
# Token counts: ordinary ones, and values on both sides of tier limits.
SIZES = [7, 1_234, 100_001, 128_001, 200_000, 200_001, 272_001, 900_000]
# Before, on and after days of price changes, and at night, when some prices are lower.
TIMES = ["2025-02-09T12:00:00Z", "2025-11-03T17:30:00Z", "2026-04-24T00:00:00Z", "2026-08-31T23:59:59Z",
         "2026-11-22T03:45:00Z", "2026-11-22T16:45:00Z"]
FOLDERS = {"gemini": "google", "xai": "x-ai", "zhipu": "zai", "azure_openai": "azure", "azure_foundry": "azure"}


def steps(path):
    return [path] if isinstance(path, str) else list(path)


def put(body, path, value):
    """Sets the value at a path and creates the parents."""
    path = steps(path)
    for step, following in zip(path, path[1:] + [None]):
        last = following is None
        if isinstance(step, types.ArrayMatch):
            wanted = named(step.match)
            item = next((one for one in body if one.get(step.field) == wanted), None)
            if item is None:
                item = {step.field: wanted}
                body.append(item)
            body = item
        elif last:
            body[step] = value
        else:
            body = body.setdefault(step, [] if isinstance(following, types.ArrayMatch) else {})


def named(match):
    return getattr(match, "equals", None) or getattr(match, "starts_with", None) or named(match.or_[0])


def counts(extractor, size, dice):
    """A count for each path: totals are about `size`, parts are small, and sometimes missing or fractions."""
    for mapping in extractor.mappings:
        whole = mapping.dest in ("input_tokens", "output_tokens")
        if not mapping.required and not whole and dice.random() < 0.4:
            continue
        if whole:
            yield mapping, max(1, size // (1 if mapping.dest == "input_tokens" else 10))
        elif mapping.dest.endswith("seconds"):
            yield mapping, dice.choice([3, 61, 12.5])
        else:
            yield mapping, dice.randrange(0, 1 + size // 40)


def name_of(model, dice):
    names = []

    def collect(clause):
        if isinstance(clause, types.ClauseEquals):
            names.append(clause.equals)
        elif isinstance(clause, types.ClauseStartsWith):
            names.append(clause.starts_with)
        for part in getattr(clause, "or_", None) or getattr(clause, "and_", None) or []:
            collect(part)

    collect(model.match)
    names = sorted(set(names)) or [model.id]
    name = dice.choice(names)
    return name.upper() if dice.random() < 0.05 else name


def terms_of(model, dice):
    variants = model.price_variants or []
    return dict(dice.choice(variants).when) if variants and dice.random() < 0.5 else {}


def case(source, provider, flavour, body, model, at, terms):
    """A call with its cost by genai-prices; `cost` is null if genai-prices rejects it."""
    row_data = {"source": source, "provider": provider, "flavour": flavour, "body": body, "model": model, "at": at,
            "terms": terms}
    moment = datetime.datetime.fromisoformat(at)
    try:
        usage = extract_usage(body, provider_id=provider, api_flavor=flavour).usage
        price = calc_price(usage, model, provider_id=provider, genai_request_timestamp=moment,
                           price_context=terms or None)
        row_data["cost"] = format(price.total_price, "f")
    except (ValueError, LookupError) as error:
        row_data["cost"], row_data["refusal"] = None, str(error)
    return row_data


def generated():
    dice, found = random.Random(SEED), {provider.id: provider for provider in providers}
    for provider in (found[name] for name in PROVIDERS):
        offered = [(model, True) for model in provider.models]
        for name in provider.fallback_model_providers or []:
            offered += [(model, False) for model in found[name].models[:6]]
        for number, extractor in enumerate(provider.extractors or []):
            for nth, (model, own) in enumerate(offered):
                # Each of OpenRouter's many models with one flavour; other models with all flavours.
                if len(offered) > 200 and (nth % len(provider.extractors) != number):
                    continue
                size, at = SIZES[nth % len(SIZES)], TIMES[(nth + number) % len(TIMES)]
                if dice.random() < 0.3:
                    size = dice.choice(SIZES)
                body, name = {}, name_of(model, dice)
                put(body, extractor.model_path, name)
                for mapping, count in counts(extractor, size, dice):
                    put(body, steps(extractor.root) + steps(mapping.path), count)
                terms = terms_of(model, dice) if own else {}
                yield case("made up", provider.id, extractor.api_flavor, body, name, at, terms)


def recorded(folder):
    for file in sorted(pathlib.Path(folder).glob("*/*.json")):
        answer = json.loads(file.read_text())["response"]
        body_file = answer.get("body_file")
        text = (file.parent / body_file).read_text() if body_file else None
        if text is None:
            whole = answer["body"]
            lines = [whole if isinstance(whole, str) else json.dumps(whole)]
        else:
            lines = [line.removeprefix("data:").strip() for line in text.splitlines()]
        provider = FOLDERS.get(file.parent.name, file.parent.name)
        rules = next((one.extractors for one in providers if one.id == provider), None) or []
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            # In a stream, usage is inside an event, under a field named after its content.
            for body in (event, event.get("response"), event.get("message")) if isinstance(event, dict) else []:
                if not isinstance(body, dict) or not ("usage" in body or "usageMetadata" in body):
                    continue
                model = body.get("model") or body.get("modelVersion")
                for rule in rules if model else []:
                    yield case(f"{file.parent.name}/{file.stem}", provider, rule.api_flavor, body, model, TIMES[-1], {})


def dataset(file):
    for row in json.loads(pathlib.Path(file).read_text()):
        for extracted in row["extracted"]:
            for rule in extracted["extractors"]:
                model = row.get("model")
                if model and rule["provider_id"] in PROVIDERS:
                    yield case("dataset", rule["provider_id"], rule["api_flavor"], row["body"], model, TIMES[-1], {})


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("file")
    arguments.add_argument("--recordings")
    arguments.add_argument("--dataset")
    arguments = arguments.parse_args()
    more = recorded(arguments.recordings) if arguments.recordings else []
    others = dataset(arguments.dataset) if arguments.dataset else []
    with open(arguments.file, "w", encoding="utf-8") as lines:
        for row_data in itertools.chain(generated(), more, others):
            lines.write(json.dumps(row_data) + "\n")
