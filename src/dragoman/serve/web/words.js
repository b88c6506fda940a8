"use strict";
/* What the page says, in the languages it says it in: the browser's first that is there. */
const WORDS = {
  en: {
    model: "Model", theme: "Dark or light", source: "Text", target: "Translation", clear: "Clear", copy: "Copy", copied: "Copied",
    hint: "Type or paste text", empty: "The translation appears here", how: "With the arrow keys, go from word to word and hear what each looked at. Escape leaves.",
    others: "Other translations of this line", looked: "What it looked at", legend: "Each row is a word as it was written; the stronger its color, the more it looked at the word above.",
    api: "API", waiting: "Translating …", away: "The server cannot be reached. Your text stays here, and is translated when the server is back.",
    busy: n => `The server is busy; it is asked again in ${n} s.`, long: (n, most) => `${n} of ${most} characters: shorten the text, or use the API for files.`,
    count: (n, most) => `${n} of ${most}`, none: "No others were found.", looks: "looked at", seen: "is looked at by", nothing: "nothing in particular",
    failed: "This cannot be shown", truncated: "a part was cut short", repetitive: "it repeats itself", split: "long lines were translated sentence by sentence",
    empty_flag: "a line has no translation", careful: "Careful: ", unseen: "This line is too long to look into, or was translated in parts.",
  },
  zh: {
    model: "模型", theme: "深色或浅色", source: "原文", target: "译文", clear: "清空", copy: "复制", copied: "已复制",
    hint: "输入或粘贴文字", empty: "译文显示在这里", how: "用方向键逐词移动，可以听到每个词看了哪里。按 Esc 离开。",
    others: "这一行的其他译法", looked: "它看了哪里", legend: "每一行是写出的一个词；颜色越深，写它时越关注上方的那个词。",
    api: "API", waiting: "正在翻译……", away: "连接不上服务器。文字会保留在这里，服务器恢复后自动翻译。",
    busy: n => `服务器繁忙，${n} 秒后重试。`, long: (n, most) => `共 ${n} 个字符，上限 ${most}：请缩短文字，或用 API 处理文件。`,
    count: (n, most) => `${n} / ${most}`, none: "没有找到其他译法。", looks: "看了", seen: "被这些词关注：", nothing: "没有特别关注哪里",
    failed: "无法显示", truncated: "有一部分被截断", repetitive: "译文有重复", split: "较长的行按句翻译",
    empty_flag: "有一行没有译文", careful: "请留意：", unseen: "这一行太长，或是分段翻译的，无法查看。",
  },
};
const asked = new URLSearchParams(location.search).get("lang");
const languages = asked ? [asked] : navigator.languages || [navigator.language || "en"];
const language = languages.map(code => code.toLowerCase().split("-")[0]).find(code => code in WORDS) || "en";
const say = WORDS[language];
const figure = new Intl.NumberFormat(language === "zh" ? "zh-CN" : "en");
const at = id => document.getElementById(id);

document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
for (const node of document.querySelectorAll("[data-say]")) node.textContent = say[node.dataset.say];
for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", say[node.dataset.label]);
for (const node of document.querySelectorAll("[data-hint]")) node.placeholder = say[node.dataset.hint];

/* A choice that outlives the page, where the browser lets it. */
const kept = {
  get(name) { try { return localStorage.getItem(`dragoman.${name}`); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(`dragoman.${name}`, value); } catch { /* private windows keep nothing */ } },
};

const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  document.documentElement.dataset.theme = kept.get("theme") || (dark.matches ? "dark" : "light");
}
dark.addEventListener("change", paint);
at("theme").addEventListener("click", () => {
  kept.set("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  paint();
});
paint();
