"""Interpret the finish reasons of replies: which of them say that the model ended its reply, by each provider's
documentation.
"""

from __future__ import annotations

from typing import Literal

Ending = Literal["whole", "cut", "broken", "unknown"]
"""How a reply ended. `whole`: by the model. `cut`: by a limit or a filter, and a second try would end so, too.
`broken`: a second try may bring it whole. `unknown`: the finish reason is not known, so the reply is not taken for
whole."""

TOOL_CALLS = "tool_calls"
"""The finish reason of a reply that calls tools."""

_DOCUMENTED: dict[str, dict[Ending, str]] = {
    "OpenAI, platform.openai.com/docs/api-reference/chat/object": {
        "whole": "stop tool_calls function_call",
        "cut": "length content_filter",
    },
    "vLLM, vllm/v1/engine (FinishReason)": {"whole": "stop", "cut": "length repetition", "broken": "abort error"},
    "SGLang, sglang/srt/managers/schedule_batch.py": {"whole": "stop", "cut": "length", "broken": "abort"},
    "llama.cpp, tools/server (stop types)": {"whole": "stop eos word", "cut": "length limit"},
    "Text Generation Inference (FinishReason)": {"whole": "stop_sequence eos_token", "cut": "length"},
    "Ollama, docs/api.md (done_reason)": {"whole": "stop", "cut": "length", "broken": "load unload"},
    "DeepSeek, api-docs.deepseek.com/api/create-chat-completion": {
        "whole": "stop tool_calls",
        "cut": "length content_filter",
        "broken": "insufficient_system_resource",
    },
    "Mistral, docs.mistral.ai/api": {"whole": "stop tool_calls", "cut": "length model_length", "broken": "error"},
    "Anthropic, docs.anthropic.com (stop_reason)": {
        "whole": "end_turn stop_sequence tool_use",
        "cut": "max_tokens refusal model_context_window_exceeded",
        "broken": "pause_turn",
    },
    "Gemini, ai.google.dev/api/generate-content (FinishReason)": {
        "whole": "stop",
        "cut": "max_tokens safety recitation language blocklist prohibited_content spii other",
        "broken": "malformed_function_call unexpected_tool_call malformed_response missing_thought_signature",
    },
    "Vertex AI, pictures (FinishReason)": {"cut": "image_safety image_prohibited_content image_recitation image_other"},
    "LM Studio, lmstudio.ai/docs (stopReason)": {
        "whole": "eosfound stopstringfound toolcalls",
        "cut": "maxpredictedtokensreached contextlengthreached",
        "broken": "userstopped modelunloaded failed",
    },
    "Llama Stack (StopReason)": {"whole": "end_of_turn end_of_message", "cut": "out_of_tokens"},
    "TensorRT-LLM (finish_reason)": {"whole": "stop", "cut": "length", "broken": "cancelled timeout"},
    "AI21, on Bedrock (finishReason)": {"whole": "endoftext", "cut": "length"},
    "SenseNova, platform.sensenova.cn (finish_reason)": {"whole": "stop", "cut": "length sensitive context"},
    "Aleph Alpha (finish_reason)": {"whole": "end_of_text", "cut": "maximum_tokens"},
    "Cohere, docs.cohere.com/reference/chat": {
        "whole": "complete stop_sequence tool_call",
        "cut": "max_tokens error_toxic error_limit",
        "broken": "error timeout user_cancel",
    },
    "Amazon Bedrock, Converse API (stopReason)": {
        "whole": "end_turn stop_sequence tool_use finish",
        "cut": "max_tokens length guardrail_intervened content_filtered model_context_window_exceeded",
        "broken": "malformed_model_output malformed_tool_use",
    },
    "watsonx.ai, text generation (stop_reason)": {
        "whole": "eos_token stop_sequence",
        "cut": "max_tokens token_limit time_limit",
        "broken": "cancelled error not_finished",
    },
    "Together, docs.together.ai": {"whole": "stop eos tool_calls", "cut": "length"},
    "Zhipu, docs.bigmodel.cn": {
        "whole": "stop tool_calls",
        "cut": "length sensitive model_context_window_exceeded",
        "broken": "network_error",
    },
    "MiniMax, platform.minimaxi.com": {"whole": "stop tool_calls", "cut": "length max_output content_filter"},
    "Qianfan, cloud.baidu.com": {"whole": "normal stop function_call", "cut": "length content_filter"},
    "OpenRouter, openrouter.ai/docs": {"whole": "stop tool_calls", "cut": "length content_filter", "broken": "error"},
}
"""By provider and where it says so; letters in any case."""

_ENDINGS: dict[str, Ending] = {
    reason: ending
    for documented in _DOCUMENTED.values()
    for ending, reasons in documented.items()
    for reason in reasons.split()
}


def read_ending(reason: str) -> Ending:
    """Return how a reply with this finish reason ended. Without one (`null`) it counts as complete, since some servers
    give none.
    """
    # `content_filter: SAFETY` and `FinishReason.STOP` are Gemini's behind gateways.
    reason = reason.strip().casefold().partition(":")[0].rpartition(".")[2].removeprefix("finish_reason_")
    return _ENDINGS.get(reason, "unknown") if reason and reason not in ("null", "none", "unspecified") else "whole"
