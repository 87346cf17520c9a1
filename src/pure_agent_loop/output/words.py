"""What a model reads about the form of its answer, in English and Chinese."""

from __future__ import annotations

from pure_agent_loop.support.language import Sentences

say = Sentences(
    {
        "typed_answer": (
            "Your final answer must be one JSON value of this JSON Schema, nothing around it:\n{schema}",
            "你的最终回答必须是一个符合以下 JSON Schema 的 JSON 值，前后不要有任何内容：\n{schema}",
        ),
        "final_result": (
            "Gives the final answer and ends the task. Call it once, when you know the answer.",
            "给出最终回答并结束任务。知道答案后调用一次。",
        ),
        "correct_answer": (
            "Your answer cannot be used: {why}\nGive the whole answer again, corrected.",
            "你的回答无法使用：{why}\n请更正后重新给出完整的回答。",
        ),
        "answer_no_json": (
            "it is no JSON value of the form that was asked for. The JSON Schema is {schema}",
            "它不是所要求形式的 JSON 值。JSON Schema 为 {schema}",
        ),
    }
)
