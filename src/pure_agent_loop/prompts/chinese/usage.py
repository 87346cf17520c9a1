"""Usage errors of `argparse` by patterns of the English text. Chinese."""

MESSAGES = {
    r"unrecognized arguments: (.*)": "无法识别的参数：{0}",
    r"argument ([^:]*): (.*)": "参数 {0}：{1}",
    r"expected one argument": "需要一个值",
    r"expected at most one argument": "最多一个值",
    r"expected at least one argument": "至少一个值",
    r"expected ([0-9]+) arguments?": "需要 {0} 个值",
    r"invalid choice: (.*) \(choose from (.*)\)": "{0} 无效（可选：{1}）",
    r"the following arguments are required: (.*)": "缺少参数：{0}",
    r"not allowed with argument (.*)": "不能与 {0} 同用",
    r"ignored explicit argument (.*)": "不接受值 {0}",
    r"invalid (\w+) value: (.*)": "值 {1} 无效",
    r"one of the arguments (.*) is required": "需要以下参数之一：{0}",
}
