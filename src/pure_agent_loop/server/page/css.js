// A grammar of CSS for the highlighter of code, without lists of names: a word before a colon and a value is a property.
export default (highlighter) => ({
  contains: [
    highlighter.C_BLOCK_COMMENT_MODE, highlighter.APOS_STRING_MODE, highlighter.QUOTE_STRING_MODE,
    { scope: "keyword", begin: /@[\w-]+|!important\b/ },
    { scope: "variable", begin: /--[\w-]+/ },
    { scope: "attribute", begin: /[\w-]+(?=\s*:[^{}:]*[;}])/ },
    { scope: "number", begin: /#[\da-f]{3,8}\b(?=[^{}]*[;}])|(?<![\w-])-?(\d*\.)?\d+(%|[a-z]+\b)?/i },
    { scope: "selector-tag", begin: /[.#&*]?[a-z][\w-]*(?=[^;}]*\{)/i },
  ],
});
