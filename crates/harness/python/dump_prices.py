"""Writes prices, limits and capabilities of models as JSON: dump_prices.py LITELLM_WHEEL PRICES MODELS

Prices come from the installed genai-prices, limits and capabilities from the table in litellm's wheel. Both are reduced
to the providers Houston supports. One model per line, so that a change is one line of a diff.
"""

import dataclasses
import datetime
import json
import re
import sys
import zipfile
from decimal import Decimal
from importlib.metadata import version

from genai_prices import types
from genai_prices.data import providers
from genai_prices.data_units import unit_data

# Names in genai-prices, including the providers that Azure and Google fall back to.
PROVIDERS = [
    "anthropic", "azure", "cerebras", "cohere", "deepseek", "fireworks", "github-copilot", "google", "groq", "mistral",
    "moonshotai", "openai", "openrouter", "perplexity", "together", "x-ai", "zai", "zhipuai",
]
# Name of a provider in litellm: the prefix of its models there, and its name in genai-prices.
LIMITS = {
    "anthropic": ("", "anthropic"), "azure": ("azure/", "azure"), "azure_ai": ("azure_ai/", "azure"),
    "cerebras": ("cerebras/", "cerebras"), "cohere_chat": ("", "cohere"), "deepseek": ("deepseek/", "deepseek"),
    "fireworks_ai": ("fireworks_ai/", "fireworks"), "gemini": ("gemini/", "google"),
    "github_copilot": ("github_copilot/", "github-copilot"), "groq": ("groq/", "groq"),
    "mistral": ("mistral/", "mistral"), "moonshot": ("moonshot/", "moonshotai"), "openai": ("", "openai"),
    "perplexity": ("perplexity/", "perplexity"), "together_ai": ("together_ai/", "together"), "xai": ("xai/", "x-ai"),
    "zai": ("zai/", "zai"), "bigmodel": ("bigmodel/", "zhipuai"),
}
SUPPORTS = {
    "tools": "supports_function_calling", "parallel_tools": "supports_parallel_function_calling",
    "vision": "supports_vision", "json_schema": "supports_response_schema", "reasoning": "supports_reasoning",
    "prompt_caching": "supports_prompt_caching",
}
LITELLM_TABLE = "litellm/model_prices_and_context_window_backup.json"
LOOKAHEAD = re.compile(r"\^\(\?!")


def regex(pattern):
    """Converts a pattern to one without look-ahead: `^(?!X)Y` becomes "not ^X, and ^Y"."""
    if "(?" not in pattern.replace("(?:", ""):
        return {"regex": pattern}
    if not LOOKAHEAD.match(pattern):
        raise SystemExit(f"dump_prices.py cannot convert the pattern {pattern}: extend regex()")
    depth, at = 1, 4
    while depth:
        depth += {"(": 1, ")": -1}.get(pattern[at], 0) if pattern[at - 1] != "\\" else 0
        at += 1
    refused, rest = pattern[4:at - 1], pattern[at:]
    parts = [{"not": regex("^" + refused)}]
    return {"and": parts + [regex("^" + rest)]} if rest else parts[0]


def clause(match):
    if match is None:
        return None
    [(name, value)] = dataclasses.asdict(match).items() if not hasattr(match, "or_") and not hasattr(match, "and_") \
        else [(dataclasses.fields(match)[0].name, None)]
    if name in ("or_", "and_"):
        return {name[:-1]: [clause(part) for part in getattr(match, name)]}
    return regex(value) if name == "regex" else {name: value}


def amount(price):
    if isinstance(price, types.TieredPrices):
        return {"base": amount(price.base), "tiers": [[tier.start, amount(tier.price)] for tier in price.tiers]}
    return format(price, "f")


def amounts(prices):
    return {key: amount(price) for key, price in vars(prices).items() if price is not None}


def utc(time):
    return types._utc_timetz(time).strftime("%H:%M:%S")


def condition(constraint):
    if constraint is None:
        return {}
    if isinstance(constraint, types.StartDateConstraint):
        return {"from": constraint.start_date.isoformat()}
    return {"between": [utc(constraint.start_time), utc(constraint.end_time)]}


def model(info):
    conditional = info.prices if isinstance(info.prices, list) else [types.ConditionalPrice(prices=info.prices)]
    entry_data = {
        "id": info.id, "match": clause(info.match), "context": info.context_window, "deprecated": info.deprecated,
        "prices": [{**condition(price.constraint), "prices": amounts(price.prices)} for price in conditional],
        "variants": [
            {"when": variant.when, **condition(variant.constraint), "prices": amounts(variant.prices)}
            for variant in info.price_variants or []
        ],
    }
    return {key: value for key, value in entry_data.items() if value not in (None, [])}


def path(steps):
    steps = [steps] if isinstance(steps, str) else steps
    return [step if isinstance(step, str) else {"field": step.field, "match": clause(step.match)} for step in steps]


def extractor(rule):
    return {
        "flavour": rule.api_flavor, "root": path(rule.root), "model": path(rule.model_path),
        "counts": [
            {"path": path(count.path), "unit": count.dest, **({"required": True} if count.required else {})}
            for count in rule.mappings if count.dest in unit_data
        ],
    }


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def write(file, head, items):
    """Writes the fields of `head`, then the models of each provider, one per line."""
    with open(file, "w", encoding="utf-8") as out:
        out.write(compact(head)[:-1] + ',"providers":[\n')
        out.write(",\n".join(
            compact(group)[:-1] + ',"models":[\n' + ",\n".join(compact(one) for one in models) + "\n]}"
            for group, models in items
        ))
        out.write("\n]}\n")


def prices(file, date):
    units = {
        key: {"price": unit["price_key"], "per": unit["per"], "dimensions": unit["dimensions"]}
        for key, unit in unit_data.items()
    }
    source = {
        "package": "genai-prices", "version": version("genai-prices"), "date": date, "licence": "MIT",
        "copyright": "Copyright (c) Pydantic Services Inc. 2025 to present",
    }
    found = {provider.id: provider for provider in providers}
    missing = [name for name in PROVIDERS if name not in found]
    if missing:
        raise SystemExit(f"genai-prices has no provider {', '.join(missing)}: change PROVIDERS in dump_prices.py")
    items = []
    for name in PROVIDERS:
        provider = found[name]
        head = {"id": name, "match": clause(provider.provider_match), "fallback": provider.fallback_model_providers,
                "extractors": [extractor(rule) for rule in provider.extractors or []]}
        items.append(({key: value for key, value in head.items() if value}, [model(m) for m in provider.models]))
    write(file, {"source": source, "units": units}, items)


def searches_tools(provider, name):
    """Whether a provider's own tool search works with a model. litellm does not say; both providers document it.

    https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool: from the 4.5 models on.
    https://developers.openai.com/api/docs/guides/tools-tool-search: from gpt-5.4 on.
    """
    name = name.rsplit("/", 1)[-1]
    if provider == "anthropic":
        return re.match(r"claude-(haiku|sonnet|opus|fable|mythos)-", name) is not None
    gpt = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    if provider not in ("openai", "azure") or gpt is None or "-chat" in name or "search" in name:
        return False
    return (int(gpt[1]), int(gpt[2] or 0)) >= (5, 4)


def limits(file, wheel, date):
    with zipfile.ZipFile(wheel) as archive:
        table = json.loads(archive.read(LITELLM_TABLE))
    source = {
        "package": "litellm", "version": wheel.rsplit("/", 1)[-1].split("-")[1], "date": date, "licence": "MIT",
        "copyright": "Copyright (c) 2023 Berri AI",
    }
    by_provider = {}
    for name, entry in table.items():
        start, provider = LIMITS.get(entry.get("litellm_provider"), (None, None))
        if provider is None or entry.get("mode") not in ("chat", "responses"):
            continue
        whole = {key: entry.get(key) for key in ("max_input_tokens", "max_output_tokens")}
        entry_data = {
            "id": name.removeprefix(start),
            "input": whole["max_input_tokens"] if isinstance(whole["max_input_tokens"], int) else None,
            "output": whole["max_output_tokens"] if isinstance(whole["max_output_tokens"], int) else None,
            # A missing flag means unknown; `false` means not supported.
            "supports": [key for key, flag in SUPPORTS.items() if entry.get(flag) is True]
            + ["tool_search"] * (entry.get("supports_function_calling") is True and searches_tools(provider, name)),
            "lacks": [key for key, flag in SUPPORTS.items() if entry.get(flag) is False],
            "retires": entry.get("deprecation_date"),
        }
        entry_data = {key: value for key, value in entry_data.items() if value not in (None, [], "")}
        # Azure has two tables: the first one that has a model is used.
        by_provider.setdefault(provider, {}).setdefault(entry_data["id"], entry_data)
    items = [({"id": name}, sorted(by_provider[name].values(), key=lambda one: one["id"])) for name in sorted(by_provider)]
    write(file, {"source": source}, items)


if __name__ == "__main__":
    _, litellm, prices_file, models_file = sys.argv
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    prices(prices_file, today)
    limits(models_file, litellm, today)
