"use strict";
/* The strings of the page in each language; the first available language of the browser is used. */
const STRINGS = {
  en: {
    model: "Model", pair: (from, to) => `${from} to ${to}`, into: to => `to ${to}`, detect: "Detect language", detected: name => `${name} detected`,
    theme: "Switch between dark and light", swap: "Swap languages", source: "Text", target: "Translation", clear: "Clear", copy: "Copy", copied: "Copied",
    open: "Translate a file", back: "Back to text", download: name => `Download ${name}`, onlyReview: "Only segments to review", segment: "Segment", more: "Show more",
    sentences: (n, all) => `${n} of ${all} sentences`, lost: "The server cannot be reached, or the connection was lost. Try again.",
    summary: (n, all, review) => `${n} of ${all} segments translated, ${review} to review`,
    largeFile: (n, most, mb) => `The file has ${n} bytes; the limit is ${most} (${mb} MB). Split it, or make its pictures smaller.`, nothingInside: "There is nothing to translate in this file.",
    textErrors: { too_large: "The text is too long to translate at once. Translate it in parts.", over_budget: "The text is too long to translate at once. Translate it in parts." },
    fileErrors: {
      too_large: "The file is too long to translate at once. Split it into smaller files.", over_budget: "The file is too long to translate at once. Split it into smaller files.",
      deadline_exceeded: "The file takes too long to translate. Split it into smaller files, or try again later.",
      encrypted_document: "The file is encrypted. Save it without a password first.", file_empty: "The file is empty.",
      unsupported_format: "This kind of file cannot be translated. Choose a document (Word, PowerPoint, Excel, OpenDocument, EPUB, HTML, Markdown, text), subtitles, or strings of a program (PO, XLIFF, JSON, YAML and others). Save a PDF or an RTF as .docx first, and an old Office document as .docx, .pptx or .xlsx.",
    },
    hint: "Type or paste text, or drop a file", empty: "The translation appears here",
    help: "Use the arrow keys to move between words and hear what each one attends to. Press Escape to stop.",
    others: "Other translations of this line", none: "No other translations.", api: "API", waiting: "Translating …", failed: "Not available",
    attention: "Attention", legend: "Each row is a word of the translation; the stronger the color, the more it attends to the word above.",
    attends: "attends to", attendedBy: "is attended to by", nothing: "nothing in particular",
    noAttention: "This line is too long for attention, or was translated in parts.",
    away: "The server cannot be reached. Your text is kept and will be translated when the server is back.",
    busy: n => `The server is busy; retrying in ${n} s.`, long: (n, most) => `The text has ${n} characters; the limit is ${most}. Shorten it.`,
    count: (n, most) => `${n} of ${most}`, confidence: n => `confidence ${n} %`, warning: "Warning: ",
    flags: {
      truncated: "part of the translation was cut off", repetitive: "it repeats itself", too_short: "part of the text may be missing",
      too_long: "it is much longer than the text", copied: "a sentence was not translated", no_letters: "words are missing",
      unseen_length: "a sentence is longer than any in the training data", empty: "a sentence has no translation",
    },
    semicolon: "; ", place: key => key, notes: {},
  },
  zh: {
    model: "模型", pair: (from, to) => `${from} → ${to}`, into: to => `→ ${to}`, detect: "检测语言", detected: name => `检测到${name}`,
    theme: "切换深色和浅色", swap: "交换语言", source: "原文", target: "译文", clear: "清空", copy: "复制", copied: "已复制",
    open: "翻译文件", back: "返回文字", download: name => `下载 ${name}`, onlyReview: "只看需要检查的段落", segment: "段落", more: "显示更多",
    sentences: (n, all) => `第 ${n} 句，共 ${all} 句`, lost: "连接不上服务器，或连接中断。请重试。",
    summary: (n, all, review) => `共 ${all} 段，已翻译 ${n} 段，${review} 段需要检查`,
    largeFile: (n, most, mb) => `文件有 ${n} 字节，上限 ${most}（${mb} MB）：请拆分文件，或压缩其中的图片。`, nothingInside: "这个文件里没有可以翻译的文字。",
    textErrors: { too_large: "文字太长，无法一次翻译：请分段翻译。", over_budget: "文字太长，无法一次翻译：请分段翻译。" },
    fileErrors: {
      too_large: "文件太长，无法一次翻译：请拆分成几个小文件。", over_budget: "文件太长，无法一次翻译：请拆分成几个小文件。",
      deadline_exceeded: "翻译这个文件用时太长：请拆分成几个小文件，或稍后再试。",
      encrypted_document: "文件已加密：请先另存为没有密码的文件。", file_empty: "文件是空的。",
      unsupported_format: "不支持这种文件。请选择文档（Word、PowerPoint、Excel、OpenDocument、EPUB、HTML、Markdown、纯文本）、字幕或程序字符串（PO、XLIFF、JSON、YAML 等）。PDF 和 RTF 请先另存为 .docx，旧版 Office 文档请另存为 .docx、.pptx 或 .xlsx。",
    },
    hint: "输入或粘贴文字，或拖入文件", empty: "译文显示在这里",
    help: "用方向键逐词移动，可以听到每个词关注哪里。按 Esc 退出。",
    others: "这一行的其他译法", none: "没有其他译法。", api: "API", waiting: "正在翻译……", failed: "无法显示",
    attention: "注意力", legend: "每一行是译文中的一个词；颜色越深，越关注上方的原文词。",
    attends: "关注", attendedBy: "被这些词关注：", nothing: "没有特别关注哪里",
    noAttention: "这一行太长，或是分段翻译的，无法查看。",
    away: "连接不上服务器。文字会保留在这里，服务器恢复后自动翻译。",
    busy: n => `服务器繁忙，${n} 秒后重试。`, long: (n, most) => `共 ${n} 个字符，上限 ${most}：请缩短文字。`,
    count: (n, most) => `${n} / ${most}`, confidence: n => `置信度 ${n}%`, warning: "请留意：",
    flags: {
      truncated: "有一部分被截断", repetitive: "译文有重复", too_short: "可能有遗漏",
      too_long: "译文比原文长得多", copied: "有一句没有翻译", no_letters: "译文缺少文字",
      unseen_length: "有一句比训练数据中的都长", empty: "有一句没有译文",
    },
    semicolon: "；", place: key => key.replace(/^line (\d+)/, "第 $1 行").replace(/^cue (\d+)/, "字幕 $1"),
    notes: {
      kept: problem => `保留了原文：${{ placeholder_lost: "模型没有保留全部占位符", markup_lost: "标记无法像原文那样嵌套", empty: "模型没有给出译文" }[problem]}`,
      low_confidence: () => "置信度低", numbers_differ: () => "数字不一致", split: () => "分成几部分翻译", lacks: phrase => `缺少“${phrase}”`,
      unaligned: tag => `译文中没有与 <${tag}> 对应的词`, retried: () => "重译后才保留了占位符", match: target => `翻译记忆：${target}`,
      similar: (score, source, target) => `与翻译记忆中的“${source}”有 ${score}% 相似：${target}`,
    },
  },
};
const requested = new URLSearchParams(location.search).get("lang");
const languages = requested ? [requested] : navigator.languages || [navigator.language || "en"];
const language = languages.map(code => code.toLowerCase().split("-")[0]).find(code => code in STRINGS) || "en";
const strings = STRINGS[language];
const figure = new Intl.NumberFormat(language === "zh" ? "zh-CN" : "en");
const byId = id => document.getElementById(id);

document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
for (const node of document.querySelectorAll("[data-string]")) node.textContent = strings[node.dataset.string];
for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", strings[node.dataset.label]);
for (const node of document.querySelectorAll("[data-placeholder]")) node.placeholder = strings[node.dataset.placeholder];

/* Settings that are kept in the browser, if it allows that. */
const storage = {
  get(name) { try { return localStorage.getItem(`dragoman.${name}`); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(`dragoman.${name}`, value); } catch { /* private windows reject it */ } },
};

const dark = matchMedia("(prefers-color-scheme: dark)");
function applyTheme() {
  document.documentElement.dataset.theme = storage.get("theme") || (dark.matches ? "dark" : "light");
}
dark.addEventListener("change", applyTheme);
byId("theme").addEventListener("click", () => {
  storage.set("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  applyTheme();
});
applyTheme();
