"""What servers were reported to send, with the sources: facts about their formats, messages shortened.

Names of accounts, organisations and requests are left out or made up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PAGE = "<html><head><title>{title}</title></head><body><center><h1>{title}</h1></center><hr>nginx</body></html>"


@dataclass(frozen=True)
class Said:
    """An error as a server sent it, and what it means."""

    source: str
    status: int
    body: Any
    """A text is sent as it is; anything else as JSON."""
    kind: str
    words: str
    """Some of what has to be shown of it."""
    parameter: str = ""
    mend: str = ""

    @property
    def name(self) -> str:
        """For the list of tests."""
        return f"{self.source.split('//')[-1]}-{self.status}"


def said(message: str, **fields: Any) -> dict[str, Any]:
    """An error in OpenAI's form."""
    return {"error": {"message": message, **fields}}


FILTERED = [
    Said(
        "github.com/MoonshotAI/kimi-cli/issues/1002",
        400,
        said("The request was rejected because it was considered high risk", code=400, param="prompt",
             type="content_filter"),
        "refused", "considered high risk",
    ),
    Said(
        "github.com/UKGovernmentBEIS/inspect_ai/pull/2267 (xAI)",
        403,
        {"code": "The caller does not have permission to execute the specified operation",
         "error": "Content violates usage guidelines. Team: x, Failed check: SAFETY_CHECK_TYPE_BIO"},
        "refused", "Content violates usage guidelines",
    ),
    Said(
        "github.com/Wei-Shaw/sub2api/pull/5359 (xAI)",
        403, {"code": "permission-denied", "error": "Content violates usage guidelines. "}, "refused", "violates usage",
    ),
    Said(
        "github.com/NousResearch/hermes-agent/pull/41110 (MiniMax behind a gateway)",
        500, said("input new_sensitive, messages[220]'s content[1] image is sensitive, please check your input (1026)"),
        "refused", "new_sensitive",
    ),
    Said(
        "github.com/QwenLM/qwen-code/issues/3145 (DashScope)",
        400,
        {"error_message": "<400> InternalError.Algo.DataInspectionFailed: Input text data may contain inappropriate "
         "content."},
        "refused", "inappropriate content",
    ),
    Said(
        "github.com/anomalyco/opencode/issues/46561 (a gateway before DashScope)",
        502,
        said("Error from provider (Console Go): Upstream request failed: [data_inspection_failed] <400> "
             "InternalError.Algo.DataInspectionFailed: Input text data may contain inappropriate content."),
        "refused", "inappropriate content",
    ),
    Said(
        "github.com/langgenius/dify/issues/7932 (DashScope behind Dify)",
        500, {"message": "Input data may contain inappropriate content.", "code": "500"}, "refused", "inappropriate",
    ),
    Said(
        "github.com/langchain4j/langchain4j/issues/1079 (Zhipu)",
        400,
        said("系统检测到输入或生成内容可能包含不安全或敏感内容，请您避免输入", code="1301"),
        "refused", "敏感内容",
    ),
    Said(
        "github.com/openai/openai-cookbook/issues/1224 (new-api)",
        400, said("input contains sensitive words: [test]", type="new_api_error", param="",
                  code="sensitive_words_detected"),
        "refused", "sensitive words",
    ),
    Said(
        "github.com/deepseek-ai/DeepSeek-V2/issues/30", 400, {"detail": "Content Exists Risk"}, "refused",
        "Content Exists Risk",
    ),
    Said(
        "github.com/briqt/xunfei-spark4j/issues/3 (iFlytek Spark, in a 200)",
        200, {"code": 10013, "message": "输入内容审核不通过，涉嫌违规", "sid": "cht1"},
        "refused", "审核不通过",
    ),
    Said(
        "github.com/BerriAI/litellm/pull/16231 (LiteLLM before Azure)",
        400,
        {"error": {"message": "litellm.BadRequestError: litellm.ContentPolicyViolationError: AzureException - The "
                   "response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
                   "type": None, "param": None, "code": "400",
                   "provider_specific_fields": {"innererror": {"code": "ResponsibleAIPolicyViolation"}}}},
        "refused", "content management policy",
    ),
    Said(
        "github.com/ffroliva/gflow-cli/issues/342 (Google)",
        400,
        said("Request contains an invalid argument.", code=400, status="INVALID_ARGUMENT",
             details=[{"@type": "type.googleapis.com/google.rpc.ErrorInfo",
                       "reason": "PUBLIC_ERROR_UNSAFE_GENERATION"}]),
        "refused", "PUBLIC_ERROR_UNSAFE_GENERATION",
    ),
    Said(
        "github.com/vercel/ai/issues/19758 (Gemini, in a 200 without candidates)",
        200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 13}},
        "refused", "PROHIBITED_CONTENT",
    ),
    Said(
        "docs.anthropic.com (OpenAI-compatible endpoint)",
        400, said("Output blocked by content filtering policy", type="invalid_request_error", code=None, param=None),
        "refused", "content filtering policy",
    ),
    Said(
        "openrouter.ai/docs/api-reference/errors (moderation)",
        403,
        said("anthropic/x requires moderation. Your input was flagged.", code=403,
             metadata={"reasons": ["violence"], "flagged_input": "to be or …", "provider_name": "Anthropic"}),
        "refused", "violence",
    ),
    Said(
        "www.volcengine.com/docs/82379/1299023",
        400,
        said("The request failed because the input text may contain sensitive information. Request id: 1",
             code="InputTextSensitiveContentDetected", param="", type="BadRequest"),
        "refused", "sensitive information",
    ),
    Said(
        "portkey.ai/docs/product/guardrails",
        446,
        {"error": {"message": "The guardrail checks defined in the config failed. You can find more information in "
                   "the `hook_results` object.", "type": "hooks_failed", "param": None, "code": None},
         "hook_results": {"before_request_hooks": []}},
        "refused", "guardrail checks",
    ),
    Said(
        "www.alibabacloud.com/help/en/waf (a firewall before a server)",
        405,
        "<!doctype html><html><head><title>405</title></head><body>Sorry, your request has been blocked as it may "
        "cause potential threats to the server's security.</body></html>",
        "refused", "has been blocked",
    ),
    Said(
        "support.cloudflare.com (a firewall before a server)",
        403,
        PAGE.format(title="Attention Required! | Cloudflare"), "refused", "Attention Required",
    ),
]  # fmt: skip

TOO_LONG = [
    Said(
        "github.com/chatboxai/chatbox/issues/2060 (SiliconFlow)",
        400, {"code": 20015, "message": "length of prompt_tokens (68957) must be less than max_seq_len (65536).",
              "data": None},
        "too_long", "68957",
    ),
    Said(
        "github.com/continuedev/continue/issues/10993 (SiliconFlow, a bare text)",
        400, '"max_total_tokens (33802) must be less than or equal to max_seq_len (32768)"', "too_long", "33802",
    ),
    Said(
        "github.com/netease-youdao/LobsterAI/issues/1023 (iFlytek Spark)",
        400,
        said("Xunfei claude request failed with Sid: 1 code: 10012, msg: EngineInternalError:error, status code: 400, "
             "status: 400 Bad Request, message: input token limit is 97280", type="api_error"),
        "too_long", "97280",
    ),
    Said(
        "github.com/stackblitz/bolt.new/issues/7414 (Anthropic)",
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "input length and max_tokens exceed "
         "context limit: 90402 + 116650 > 204648, decrease input length or max_tokens and try again"}},
        "too_long", "context limit",
    ),
    Said(
        "github.com/boldsoftware/exe.dev/issues/62 (Anthropic)",
        400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 200251 tokens"
              " > 200000 maximum"}},
        "too_long", "200251",
    ),
    Said(
        "github.com/badlogic/pi-mono (xAI)",
        400, {"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 131072 "
              "but the request contains 537812 tokens."},
        "too_long", "537812",
    ),
    Said(
        "github.com/badlogic/pi-mono (GitHub Copilot)",
        400, said("prompt token count of 128200 exceeds the limit of 128000", code="model_max_prompt_tokens_exceeded"),
        "too_long", "128200",
    ),
    Said(
        "github.com/badlogic/pi-mono (MiniMax)",
        400, {"type": "error", "error": {"type": "bad_request_error", "message": "invalid params, context window "
              "exceeds limit (2013)", "http_code": "400"}},
        "too_long", "context window",
    ),
    Said(
        "github.com/badlogic/pi-mono (LM Studio)",
        400, {"error": "The number of tokens to keep from the initial prompt is greater than the context length."},
        "too_long", "tokens to keep",
    ),
    Said(
        "github.com/HunorLaczko/ha-groq-cloud-api/issues/27 (Groq)",
        413,
        said("Request too large for model x in organization org service tier on_demand on tokens per minute (TPM): "
             "Limit 6000, Requested 12328, please reduce your message size and try again.", type="tokens",
             code="rate_limit_exceeded"),
        "too_long", "Limit 6000",
    ),
    Said(
        "github.com/vanna-ai/vanna-flask/issues/11 (OpenAI)",
        429,
        said("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output "
             "tokens must be reduced in order to run successfully.", type="tokens", code="rate_limit_exceeded"),
        "too_long", "Requested 342389",
    ),
    Said(
        "github.com/eslint/tsc-meetings/pull/593 (GitHub Models)",
        413, said("Request body too large for gpt-4o model. Max size: 8000 tokens.", code="tokens_limit_reached",
                  details="Request body too large for gpt-4o model. Max size: 8000 tokens."),
        "too_long", "8000 tokens",
    ),
    Said(
        "github.com/BerriAI/litellm (Cerebras)",
        400,
        {"message": "Please reduce the length of the messages or completion. Current length is 8500 while limit is "
         "8192", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"},
        "too_long", "8500",
    ),
    Said(
        "github.com/pkdone/paul-genai-test-tools-ts (Bedrock)",
        400, {"message": "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: "
              "9279"},
        "too_long", "9279",
    ),
    Said(
        "github.com/pkdone/paul-genai-test-tools-ts (Bedrock, by characters)",
        400, {"message": "Malformed input request: expected maxLength: 50000, actual: 52611, please reformat your "
              "input and try again."},
        "too_long", "52611",
    ),
    Said(
        "github.com/google-gemini/gemini-cli/issues/6678",
        400,
        [said("The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).", code=400,
              errors=[{"message": "The input token count (1200293) exceeds …", "domain": "global",
                       "reason": "badRequest"}], status="INVALID_ARGUMENT")],
        "too_long", "1200293",
    ),
    Said(
        "github.com/posit-dev/positron/issues/11737 (Snowflake Cortex)",
        400, {"message": "max tokens of 200000 exceeded", "request_id": "1"}, "too_long", "200000",
    ),
    Said(
        "github.com/PaddlePaddle/ERNIE-SDK/issues/336 (Qianfan, in a 200)",
        200, {"error_code": 336103, "error_msg": "prompt tokens too long", "id": "as-1"}, "too_long", "too long",
    ),
    Said(
        "github.com/tashfeenahmed/freellmapi/issues/873 (Zhipu)",
        400, said("Prompt exceeds max length", code="1261"), "too_long", "exceeds max length",
    ),
    Said("docs.bigmodel.cn (error codes)", 400, said("Prompt 超长", code="1261"), "too_long", "超长"),
    Said(
        "www.xfyun.cn/doc/spark (error codes, in a 200)",
        200, {"code": 10907, "message": "token数量超过上限。对话历史+问题的字数太多，需要精简输入", "sid": "1"},
        "too_long", "超过上限",
    ),
    Said(
        "github.com/cloudflare/cloudflare-docs/issues/29731",
        400,
        {"errors": [{"message": "AiError: This model's maximum context length is 131072 tokens. However, you requested "
                     "16000 output tokens and your prompt contains at least 115073 input tokens", "code": 8007}],
         "success": False, "result": {}, "messages": []},
        "too_long", "131072",
    ),
    Said(
        "github.com/OpenHands/OpenHands/issues/5350 (LiteLLM)",
        500,
        said('litellm.ContextWindowExceededError: AnthropicError - {"type":"error","error":{"type":"invalid_request_'
             'error","message":"prompt is too long: 209303 tokens > 200000 maximum"}}', type=None, code="400"),
        "too_long", "209303",
    ),
    Said(
        "github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2339 (LM Studio, MLX)",
        500, {"error": "Context size has been exceeded."}, "too_long", "Context size",
    ),
    Said(
        "github.com/ggml-org/llama.cpp/pull/7389",
        500, said("input is too large to process. increase the physical batch size", code=500, type="server_error"),
        "too_long", "too large to process",
    ),
    Said(
        "github.com/huggingface/text-generation-inference (router/src/validation.rs)",
        422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2000 "
              "`inputs` tokens and 100 `max_new_tokens`", "error_type": "validation"},
        "too_long", "must be <= 2048",
    ),
    Said(
        "cloud.ibm.com/apidocs/watsonx-ai",
        400,
        {"errors": [{"code": "invalid_input_argument", "message": "Invalid input argument for Model 'x': the number of "
                     "input tokens 10000 cannot exceed the total tokens limit 8192 for this model"}],
         "trace": "1", "status_code": 400},
        "too_long", "8192",
    ),
    Said(
        "docs.fireworks.ai",
        400, {"error": {"object": "error", "type": "invalid_request_error", "code": "invalid_request_error",
              "message": "The prompt is too long: 200000, model maximum context length: 131071"}},
        "too_long", "131071",
    ),
    Said(
        "docs.cohere.com (too many tokens)",
        400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 6000. "
              "Try using a shorter prompt."},
        "too_long", "4081",
    ),
    Said(
        "nginx.org (client_max_body_size)", 413, PAGE.format(title="413 Request Entity Too Large"), "too_long",
        "Request Entity Too Large",
    ),
    Said("caddyserver.com, api.mistral.ai (without a body)", 413, "", "too_long", ""),
]  # fmt: skip

CREDIT = [
    Said(
        "github.com/QwenLM/qwen-code/issues/73 (OpenRouter)",
        402,
        {"error": {"message": "This request requires more credits, or fewer max_tokens. You requested up to 65536 "
                   "tokens, but can only afford 3395.", "code": 402, "metadata": {"provider_name": None}},
         "user_id": "u"},
        "credit", "can only afford 3395",
    ),
    Said(
        "github.com/QwenLM/qwen-code/issues/73 (OpenRouter, in a 200)",
        200, {"error": {"message": "Insufficient credits. Add more", "code": 402}}, "credit", "Insufficient credits",
    ),
    Said(
        "github.com/MoonshotAI/Kimi-K2/issues/5",
        403,
        said("Your account x is not active, organization <x> exceeded current quota, please check your plan and "
             "billing details", type="exceeded_current_quota_error"),
        "credit", "billing details",
    ),
    Said(
        "github.com/songquanpeng/one-api/issues/1270",
        403, said("user quota is not enough", type="one_api_error", param="", code="insufficient_user_quota"),
        "credit", "not enough",
    ),
    Said(
        "github.com/QuantumNous/new-api/issues/6929",
        403, said("用户额度不足, 剩余额度: ＄-0.000002 (request id: 1)", type="new_api_error"), "credit",
        "用户额度不足",
    ),
    Said(
        "github.com/QuantumNous/new-api (model/token.go)",
        401, said("该令牌额度已用尽 !token.UnlimitedQuota && token.RemainQuota = -1", type="new_api_error"), "credit",
        "额度已用尽",
    ),
    Said(
        "github.com/QuantumNous/new-api (service/pre_consume_quota.go)",
        403, said("预扣费额度失败, 用户剩余额度: ＄0.10, 需要预扣费额度: ＄0.20", code="pre_consume_token_quota_failed",
                  type="new_api_error"),
        "credit", "剩余额度",
    ),
    Said(
        "github.com/modelscope/modelscope/issues/1691 (MiniMax)",
        429, {"error": {"http_code": "429", "message": "insufficient balance (1008)", "type":
              "insufficient_balance_error"}, "request_id": "1"},
        "credit", "insufficient balance",
    ),
    Said(
        "github.com/MiniMax-AI/MiniMax-M2/issues/62",
        500, {"type": "error", "error": {"type": "api_error", "message": "insufficient balance (1008)"}}, "credit",
        "insufficient balance",
    ),
    Said(
        "github.com/XiaomiMiMo/MiMo/issues/99",
        402, {"type": "server_error", "message": "Upstream request failed: Insufficient account funds"}, "credit",
        "Insufficient account funds",
    ),
    Said(
        "github.com/router-for-me/CLIProxyAPI/pull/3859 (Anthropic)",
        400, {"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low "
              "to access the Anthropic API."}},
        "credit", "too low",
    ),
    Said(
        "platform.claude.com/docs (usage limits)",
        400, {"type": "error", "error": {"type": "invalid_request_error", "message": "You have reached your specified "
              "API usage limits. You will regain access on 2026-10-01 at 00:00 UTC."}},
        "credit", "regain access",
    ),
    Said(
        "platform.claude.com/docs (spend limits)",
        429, {"error": {"message": "You have reached your API usage limits: your organization has crossed its monthly "
              "API usage threshold. You will regain access on 2026-09-01 at 00:00 UTC.", "type": "rate_limit_error",
              "details": {"error_code": "enforced_spend_limit_reached"}}},
        "credit", "monthly API usage threshold",
    ),
    Said(
        "github.com/OpenHands/OpenHands-Cloud/issues/16 (LiteLLM)",
        400, said("ExceededBudget: User=x over budget"), "credit", "over budget",
    ),
    Said(
        "docs.litellm.ai/docs/proxy/users",
        429, said("Budget has been exceeded! Current cost: 2.1, Max budget: 2.0", type="budget_exceeded", code="400"),
        "credit", "Max budget",
    ),
    Said(
        "docs.api.nvidia.com (a problem of RFC 9457)",
        402, {"type": "urn:kaizen:problem-details:payment-required", "title": "Payment Required", "status": 402,
              "detail": "Account 'X': Cloud credits expired - Please contact NVIDIA representatives"},
        "credit", "Cloud credits expired",
    ),
    Said(
        "fireworks.ai/account/billing",
        412, said("Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay past "
                  "invoices.", object="error", code="precondition_failed"),
        "credit", "suspended",
    ),
    Said(
        "docs.byteplus.com ModelArk (SetLimitExceeded)",
        429,
        said('Your account [x] has reached the set inference limit for the [m] model, and the model service has been '
             'paused. To continue, adjust or close the "Safe Experience Mode".', code="SetLimitExceeded", param="",
             type="TooManyRequests"),
        "credit", "has been paused",
    ),
    Said(
        "www.volcengine.com/docs/82379/1299023",
        403, said("The request failed because your account has an overdue balance.", code="AccountOverdueError",
                  param="", type="Forbidden"),
        "credit", "overdue balance",
    ),
    Said(
        "cloud.ibm.com/apidocs/watsonx-ai (token_quota_reached)",
        403, {"errors": [{"code": "token_quota_reached", "message": "Request of 1 token(s) from quota was rejected"}],
              "trace": "1", "status_code": 403},
        "credit", "from quota was rejected",
    ),
    Said(
        "docs.x.ai (a new team)",
        403, {"code": "The caller does not have permission to execute the specified operation",
              "error": "Your newly created team doesn't have any credits or licenses yet. You can purchase those."},
        "credit", "any credits",
    ),
    Said(
        "docs.x.ai (a team without credits)",
        429, {"code": "Some resource has been exhausted", "error": "Your team x has either used all available credits "
              "or reached its monthly spending limit."},
        "credit", "monthly spending limit",
    ),
    Said(
        "github.com/huggingface/agents-course/issues/386",
        402, {"error": "You have exceeded your monthly included credits for Inference Providers. Subscribe to PRO to "
              "get 20x more monthly included credits."},
        "credit", "monthly included credits",
    ),
    Said(
        "docs.bigmodel.cn (error codes)",
        429, said("您的账户已欠费，请充值后重试", code="1113"), "credit", "欠费",
    ),
    Said(
        "help.aliyun.com/zh/model-studio/error-code (Arrearage)",
        400, said("Access denied, please make sure your account is in good standing.", type="Arrearage",
                  code="Arrearage", param=None),
        "credit", "good standing",
    ),
    Said(
        "help.aliyun.com/zh/model-studio/error-code (the free tier)",
        403, said("The free tier of the model has been exhausted. If you wish to continue access the model on a paid "
                  "basis, please disable the free tier only mode.", code="AllocationQuota.FreeTierOnly"),
        "credit", "free tier",
    ),
    Said(
        "ai.google.dev (prepaid)",
        429, [said("Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing.",
                   code=429, status="RESOURCE_EXHAUSTED")],
        "credit", "credits are depleted",
    ),
    Said(
        "deepinfra.com/docs",
        402, {"detail": {"error": "inference prohibited, please enter a payment method or top up"}}, "credit", "top up",
    ),
    Said(
        "docs.siliconflow.cn (30001)",
        403, {"code": 30001, "message": "Sorry, your account balance is insufficient", "data": None}, "credit",
        "insufficient",
    ),
]  # fmt: skip

WAITS = [
    Said(
        "github.com/n4ze3m/page-assist/issues/406 (Gemini, a list)",
        429, [said("Resource has been exhausted (e.g. check quota).", code=429, status="RESOURCE_EXHAUSTED")],
        "limited", "check quota",
    ),
    Said(
        "github.com/google-gemini/gemini-cli/issues/8437",
        429,
        said("You exceeded your current quota, please check your plan and billing details. For more information on "
             "this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.", code=429,
             status="RESOURCE_EXHAUSTED",
             details=[{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                 {"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}]),
        "limited", "current quota",
    ),
    Said(
        "github.com/continuedev/continue/issues/10655 (Gemini within a text)",
        429,
        {"error": {"message": '{\n "error": {\n "code": 429,\n "message": "You exceeded your current quota, please '
                   'check your plan and billing details. For more information on this error, head to: '
                   'https://ai.google.dev/gemini-api/docs/rate-limits.",\n "status": "RESOURCE_EXHAUSTED"\n }\n}\n',
                   "code": 429, "status": "Too Many Requests"}},
        "limited", "current quota",
    ),
    Said(
        "github.com/continuedev/continue/issues/10920 (Groq)",
        429,
        said("Rate limit reached for model x on tokens per day (TPD): Limit 100000, Used 97050, Requested 3619. Please "
             "try again in 9m38.016s. Need more tokens? Upgrade at https://console.groq.com/settings/billing",
             type="tokens", code="rate_limit_exceeded"),
        "limited", "tokens per day",
    ),
    Said(
        "aws.amazon.com/bedrock (behind a gateway, as 400)",
        400, {"detail": "An error occurred (ThrottlingException) when calling the Converse operation (reached max "
              "retries: 4): Too many tokens, please wait before trying again."},
        "limited", "please wait",
    ),
    Said(
        "aws.amazon.com/bedrock",
        429, {"Message": "Too many tokens, please wait before trying again."}, "limited", "please wait",
    ),
    Said(
        "aws.amazon.com/bedrock (behind a gateway, as 500)",
        500, said("ThrottlingException: Too many tokens, please wait before trying again."), "limited", "please wait",
    ),
    Said(
        "help.aliyun.com/zh/model-studio/error-code (Throttling.AllocationQuota)",
        429, said("Allocated quota exceeded, please increase your quota limit.", type="insufficient_quota", param=None,
                  code="insufficient_quota"),
        "limited", "Allocated quota exceeded",
    ),
    Said(
        "help.aliyun.com/zh/model-studio/error-code (limit_requests)",
        429, said("You exceeded your current requests list.", type="limit_requests", param=None, code="limit_requests"),
        "limited", "requests list",
    ),
    Said(
        "help.aliyun.com/zh/model-studio/error-code (limit_burst_rate)",
        429, said("Request rate increased too quickly. To ensure system stability, please scale requests more smoothly "
                  "over time.", code="limit_burst_rate"),
        "limited", "too quickly",
    ),
    Said(
        "learn.microsoft.com/azure/ai-services/openai/quotas-limits",
        429,
        said("Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-02-01 have exceeded "
             "token rate limit of your current OpenAI S0 pricing tier. Please retry after 6 seconds.", code="429"),
        "limited", "retry after 6 seconds",
    ),
    Said(
        "learn.microsoft.com/azure/api-management/quota-policy",
        403, {"statusCode": 403, "message": "Out of call volume quota. Quota will be replenished in 00:02:50."},
        "limited", "replenished",
    ),
    Said(
        "docs.github.com/github-models (rate limits)",
        429, said("Rate limit of 10 per 60s exceeded for UserByModelByMinute. Please wait 41 seconds before retrying.",
                  code="RateLimitReached"),
        "limited", "41 seconds",
    ),
    Said(
        "openrouter.ai/docs (free models, in a 200)",
        200, {"error": {"message": "Rate limit exceeded: free-models-per-min. Add 10 credits to unlock 1000 free model "
              "requests per day", "code": 429, "metadata": {"headers": {"X-RateLimit-Limit": "20"}}}},
        "limited", "free-models-per-min",
    ),
    Said(
        "docs.databricks.com (foundation models)",
        429, {"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "REQUEST_LIMIT_EXCEEDED: Exceeded workspace input "
              "tokens per minute rate limit for databricks-x."},
        "limited", "per minute",
    ),
    Said(
        "cloud.baidu.com/doc/qianfan (error 18, in a 200)",
        200, {"error_code": 18, "error_msg": "Open api qps request limit reached"}, "limited", "qps",
    ),
    Said(
        "docs.anthropic.com (rate limits)",
        429,
        {"type": "error", "error": {"type": "rate_limit_error", "message": "This request would exceed your "
         "organization's rate limit of 40,000 input tokens per minute. Please reduce the prompt length or the maximum "
         "tokens requested, or try again later."}},
        "limited", "40,000",
    ),
    Said(
        "docs.mistral.ai (capacity)",
        429, {"object": "error", "message": "Service tier capacity exceeded for this model.", "type":
              "invalid_request_error", "param": None, "code": "3505"},
        "limited", "capacity exceeded",
    ),
    Said(
        "docs.bigmodel.cn (error codes, 1308)",
        429, said("Usage limit reached for 5 hour. Your limit will reset at 2026-01-02 03:04:05", code="1308"),
        "limited", "will reset",
    ),
    Said(
        "platform.minimaxi.com (1002, in a 200)",
        200, {"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit exceeded(RPM)"}}, "limited",
        "RPM",
    ),
    Said(
        "docs.siliconflow.cn",
        429, {"code": 50603, "message": "Request was rejected due to rate limiting. Details:TPM limit reached.",
              "data": None},
        "limited", "TPM",
    ),
    Said(
        "github.com/huggingface/text-generation-inference",
        429, {"error": "Model is overloaded", "error_type": "overloaded"}, "limited", "overloaded",
    ),
]  # fmt: skip

PASSING = [
    Said(
        "docs.ollama.com",
        503, said("server busy, please try again.  maximum pending requests exceeded", type="api_error", code=None),
        "overloaded", "server busy",
    ),
    Said(
        "github.com/ggml-org/llama.cpp (tools/server)",
        503, said("Loading model", code=503, type="unavailable_error"), "overloaded", "Loading model",
    ),
    Said(
        "github.com/huggingface/text-generation-inference (424)",
        424, {"error": "Request failed during generation: Server error: CUDA out of memory", "error_type":
              "generation"},
        "failed", "during generation",
    ),
    Said("console.groq.com/docs/errors", 498, said("Flex tier capacity exceeded", code="capacity_exceeded"),
         "overloaded", "capacity"),
    Said(
        "github.com/cline/cline/issues/3020 (Cloudflare before OpenRouter)",
        503,
        '<!DOCTYPE html>\n<html class="no-js" lang="en-US">\n<head>\n<title>Worker exceeded resource limits | '
        "openrouter.ai | Cloudflare</title>\n<style>body{margin:0}</style></head><body>Please enable cookies."
        "</body></html>",
        "overloaded", "Worker exceeded resource limits",
    ),
    Said("developers.cloudflare.com (522)", 522, "error code: 522", "failed", "522"),
    Said("nginx.org (502)", 502, PAGE.format(title="502 Bad Gateway"), "failed", "Bad Gateway"),
    Said("www.haproxy.org (504)", 504, "<html><body><h1>504 Gateway Time-out</h1>\nThe server didn't respond in time.\n"
         "</body></html>\n", "failed", "didn't respond in time"),
    Said(
        "docs.api.nvidia.com (a problem of RFC 9457)",
        504, {"type": "urn:nvcf-worker-service:problem-details:request-timeout", "title": "Gateway Timeout",
              "status": 504, "detail": "Request Timeout"},
        "failed", "Request Timeout",
    ),
    Said(
        "openrouter.ai/docs/api-reference/errors (in a 200)",
        200, {"error": {"message": "Provider returned error", "code": 502,
              "metadata": {"raw": '{"error":{"message":"upstream connect error"}}', "provider_name": "X"}}},
        "failed", "upstream connect error",
    ),
    Said(
        "docs.ollama.com (500)",
        500, said("model runner has unexpectedly stopped, this may be due to resource limitations or an internal error",
                  type="api_error", param=None, code=None),
        "failed", "unexpectedly stopped",
    ),
    Said("docs.anthropic.com (529)", 529, {"type": "error", "error": {"type": "overloaded_error", "message":
         "Overloaded"}}, "overloaded", "Overloaded"),
    Said("ai.google.dev (503)", 503, [said("The model is overloaded. Please try again later.", code=503,
         status="UNAVAILABLE")], "overloaded", "overloaded"),
    Said(
        "cloud.tencent.com/document/product/1729 (in a 200)",
        200, {"Response": {"Error": {"Code": "InternalError", "Message": "An internal error has occurred. Retry."},
              "RequestId": "1"}},
        "failed", "internal error has occurred",
    ),
    Said(
        "github.com/sgl-project/sglang (queue)",
        503, {"object": "error", "message": "The request queue is full.", "type": "SERVICE_UNAVAILABLE", "code": 503},
        "overloaded", "queue is full",
    ),
    Said("github.com/vllm-project/vllm (EngineDeadError)", 500, {"error": {"message": "EngineCore encountered an "
         "issue. See stack trace (above) for the root cause.", "type": "InternalServerError", "code": 500}}, "failed",
         "EngineCore"),
]  # fmt: skip

PARAMETERS = [
    Said(
        "github.com/johny-b/llmcomp/issues/69 (OpenAI)",
        400,
        said("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
             "supported.", type="invalid_request_error", param="temperature", code="unsupported_value"),
        "parameter", "Only the default", "temperature", "omit: [temperature]",
    ),
    Said(
        "platform.moonshot.ai/docs/api/chat (Kimi K3)",
        400, said("invalid temperature: only 1 is allowed for this model", type="invalid_request_error"),
        "parameter", "only 1 is allowed", "temperature", "omit: [temperature]",
    ),
    Said(
        "github.com/databricks/databricks-sdk-go/issues/1183",
        400, {"error_code": "BAD_REQUEST", "message": "Bad request: rpc error: code = InvalidArgument desc = "
              "max_tokens (10000) cannot exceed 8192. Please reduce the length of max output tokens generated."},
        "parameter", "cannot exceed 8192", "max_tokens", "max_tokens",
    ),
    Said(
        "github.com/anomalyco/models.dev/issues/5824 (Cloudflare)",
        400, {"errors": [{"message": "AiError: max_completion_tokens is too large: 1298829. This model supports at "
              "most 1048576", "code": 8007}], "success": False},
        "parameter", "1298829", "max_tokens", "max_tokens",
    ),
    Said(
        "api-docs.deepseek.com",
        400, said("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", type="invalid_request_error",
                  param=None, code="invalid_request_error"),
        "parameter", "valid range", "max_tokens", "max_tokens",
    ),
    Said(
        "platform.openai.com (o1)",
        400, said("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                  "instead.", type="invalid_request_error", param="max_tokens", code="unsupported_parameter"),
        "parameter", "max_completion_tokens", "max_tokens", "rename: {max_tokens: max_completion_tokens}",
    ),
    Said(
        "platform.openai.com (o1, stop)",
        400, said("Unsupported parameter: 'stop' is not supported with this model.", type="invalid_request_error",
                  param="stop", code="unsupported_parameter"),
        "parameter", "'stop'", "stop", "omit: [stop]",
    ),
    Said(
        "docs.x.ai (grok-4)",
        400, {"code": "Client specified an invalid argument", "error": "Argument not supported on this model: stop"},
        "parameter", "not supported on this model", "stop", "omit: [stop]",
    ),
    Said(
        "ai.google.dev/gemini-api/docs/openai",
        400,
        [said('Invalid JSON payload received. Unknown name "seed": Cannot find field.', code=400,
              status="INVALID_ARGUMENT", details=[{"@type": "type.googleapis.com/google.rpc.BadRequest",
              "fieldViolations": [{"description": 'Invalid JSON payload received. Unknown name "seed": Cannot …'}]}])],
        "parameter", "Unknown name", "seed", "omit: [seed]",
    ),
    Said(
        "learn.microsoft.com/azure/ai-foundry (model inference, Mistral)",
        422,
        said("invalid input error", code="Invalid input", status=422,
             details=[{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted",
                       "input": 7}]),
        "parameter", "Extra inputs", "seed", "omit: [seed]",
    ),
    Said(
        "docs.mistral.ai (422)",
        422,
        {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra "
         "inputs are not permitted", "input": 7}]}, "type": "invalid_request_error"},
        "parameter", "Extra inputs", "seed", "omit: [seed]",
    ),
    Said(
        "docs.mistral.ai (greedy sampling)",
        400, {"object": "error", "message": "top_p must be 1 when using greedy sampling.", "type":
              "invalid_request_error", "param": None, "code": "3054"},
        "parameter", "greedy", "top_p", "omit: [top_p]",
    ),
    Said(
        "docs.litellm.ai (UnsupportedParamsError)",
        400, said("litellm.UnsupportedParamsError: bedrock does not support parameters: ['seed'], for model=x. To drop "
                  "these, set `litellm.drop_params=True`", type="None", param=None, code="400"),
        "parameter", "drop_params", "seed", "omit: [seed]",
    ),
    Said(
        "docs.fireworks.ai (long replies)",
        400, said("Requests with max_tokens > 4096 must have stream=true", object="error",
                  type="invalid_request_error"),
        "parameter", "must have stream=true", "stream", "stream: true",
    ),
    Said(
        "github.com/browser-use/web-ui/issues/390 (QwQ at DashScope)",
        400, said("This model only support stream mode, please enable the stream parameter to access the model. ",
                  code="invalid_parameter_error", param=None, type="invalid_request_error"),
        "parameter", "stream mode", "stream", "stream: true",
    ),
    Said(
        "docs.anthropic.com (Claude 4.1 and later)",
        400, said("`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
                  type="invalid_request_error"),
        "parameter", "cannot both", "top_p", "omit: [top_p]",
    ),
    Said(
        "lmstudio.ai/docs (json_object)",
        400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}, "parameter", "response_format",
        "response_format", "omit: [response_format]",
    ),
    Said(
        "api-docs.deepseek.com (json_schema)",
        400, said("This response_format type is unavailable now", type="invalid_request_error", param=None,
                  code="invalid_request_error"),
        "parameter", "unavailable now", "response_format", "omit: [response_format]",
    ),
    Said(
        "ai.google.dev (Vertex)",
        400, [said("Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range "
                   "is from 1 (inclusive) to 8193 (exclusive). Update the value and try again.", code=400,
                   status="INVALID_ARGUMENT")],
        "parameter", "supported range", "max_tokens", "max_tokens",
    ),
    Said(
        "console.groq.com/docs (unsupported)",
        400, said("property 'top_p' is unsupported", type="invalid_request_error"), "parameter", "unsupported",
        "top_p", "omit: [top_p]",
    ),
    Said(
        "docs.cohere.com (compatibility)",
        400, {"id": "1", "message": "invalid request: temperature must be between 0 and 1.0 inclusive."}, "parameter",
        "between 0 and 1.0", "temperature", "omit: [temperature]",
    ),
    Said(
        "github.com/huggingface/text-generation-inference (temperature 0)",
        422, {"error": "Input validation error: `temperature` must be strictly positive", "error_type": "validation"},
        "parameter", "strictly positive", "temperature", "omit: [temperature]",
    ),
    Said(
        "help.aliyun.com (stop)",
        400, said("<400> InternalError.Algo.InvalidParameter: Range of top_p should be (0.0, 1.0]", code=
                  "invalid_parameter_error", param=None, type="invalid_request_error"),
        "parameter", "Range of top_p", "top_p", "omit: [top_p]",
    ),
]  # fmt: skip

OTHERS = [
    Said(
        "ai.google.dev (no key)",
        400,
        [said("API key not valid. Please pass a valid API key.", code=400, status="INVALID_ARGUMENT",
              details=[{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}])],
        "key", "API key not valid",
    ),
    Said(
        "cloud.baidu.com/doc/qianfan (error 110, in a 200)",
        200, {"error_code": 110, "error_msg": "Access token invalid or no longer valid"}, "key", "Access token",
    ),
    Said("docs.siliconflow.cn (a bare text)", 401, '"Invalid token"', "key", "Invalid token"),
    Said(
        "lmstudio.ai (measured: any path answers 200)",
        200, {"error": "Unexpected endpoint or method. (POST /chat/completions)"}, "address", "Unexpected endpoint",
    ),
    Said("expressjs.com", 404, "<pre>Cannot POST /chat/completions</pre>", "address", "Cannot POST"),
    Said("fastapi.tiangolo.com", 404, {"detail": "Not Found"}, "address", "Not Found"),
    Said(
        "learn.microsoft.com/azure (a resource)", 404, said("Resource not found", code="404"), "address",
        "Resource not found",
    ),
    Said(
        "docs.ollama.com (pull)",
        404, said('model "llama9" not found, try pulling it first', type="api_error", param=None, code=None), "model",
        "try pulling it first",
    ),
    Said(
        "docs.fireworks.ai", 404, said("Model not found, inaccessible, and/or not deployed", object="error",
                                       code="NOT_FOUND"),
        "model", "not deployed",
    ),
    Said(
        "docs.siliconflow.cn (20012)",
        400, {"code": 20012, "message": "Model does not exist. Please check it carefully.", "data": None}, "model",
        "Model does not exist",
    ),
    Said(
        "aws.amazon.com/bedrock", 400, {"message": "The provided model identifier is invalid."}, "model",
        "model identifier is invalid",
    ),
    Said("lmstudio.ai (nothing loaded)", 404, said("No models loaded. Please load a model in the developer page.",
         type="invalid_request_error"), "model", "No models loaded"),
    Said("docs.github.com/github-models", 400, said("Unknown model: x", code="unknown_model"), "model",
         "Unknown model"),
    Said("docs.databricks.com", 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "The given endpoint does not "
         "exist, please retry after checking the specified model and version deployment exists."}, "model",
         "does not exist"),
    Said("cloud.ibm.com/apidocs/watsonx-ai", 404, {"errors": [{"code": "model_not_supported", "message": "Model 'x' is "
         "not supported for this environment"}], "status_code": 404}, "model", "not supported for"),
    Said("nginx.org (http to https)", 308, PAGE.format(title="308 Permanent Redirect"), "moved", "Redirect"),
    Said(
        "github.com/ggml-org/llama.cpp (tools/server, 501)",
        501, said("This server does not support chat completions.", code=501, type="not_supported_error"),
        "refused", "does not support",
    ),
    Said("ai.google.dev (places)", 400, [said("User location is not supported for the API use.", code=400,
         status="FAILED_PRECONDITION")], "refused", "User location"),
    Said("docs.api.nvidia.com (degraded)", 400, {"status": 400, "title": "Bad Request", "detail": "Function id 'x': "
         "DEGRADED function cannot be invoked"}, "refused", "DEGRADED"),
    Said("a filter that says common words (made up)", 400, said("This content is not allowed. Please stop, or seed your"
         " stream of thought anew."), "refused", "not allowed"),
]  # fmt: skip

OTHERS.append(
    Said(
        "docs.pydantic.dev (a quoted prompt, made up)",
        400,
        said("1 validation error: not valid [type=x, input_value='my credit balance is too low', input_type=str]"),
        "refused",
        "1 validation error",
    )
)

ERRORS = [*FILTERED, *TOO_LONG, *CREDIT, *WAITS, *PASSING, *PARAMETERS, *OTHERS]
