/** Documents, comments and messages speak the field's words: a reader needs no private dictionary. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { tokenizer } from "acorn";
import { none, read, sources } from "./support/tree.ts";

interface Phrase {
  /** Matches the private meaning alone: most of these words have an ordinary one as well. */
  readonly private: RegExp;
  readonly instead: string;
  /** What it finds. */
  readonly found: string;
  /** Ordinary English that it leaves alone. */
  readonly left?: string;
}

const event = "events?|watch(?:es)?|caches?|views?|lists?|sources?|kubelet|answer|status|header";
const before =
  "a|an|each|every|one|the|this|last|next|first|second|two|three|same|failed|no|such|whole|several|between|after|all";
const counted = "a|each|every|first|last|next|this|one|second|per|many|three|two";

const phrases: readonly Phrase[] = [
  {
    private: new RegExp(`\\b(?:${before}) pass(?:es)?\\b(?! through)|\\bpass(?:es)? over\\b`, "i"),
    instead: "reconcile",
    found: "the last pass over a group",
    left: "the time that passes; the test passes",
  },
  {
    private: /\b(?:tells?|told|telling) of\b/i,
    instead: "report",
    found: "no event tells of it",
    left: "the pod is told that it leaves",
  },
  {
    private: new RegExp(`\\b(?:${event}) (?:of ours )?(?:last )?(?:tells?|told)\\b`, "i"),
    instead: "report, deliver or show",
    found: "what a watch last told",
  },
  {
    private: /\b(?:hears?|heard|hearing)\b/i,
    instead: "receive, learn or confirm",
    found: "when something is heard of it",
  },
  {
    private: /\b(?:is|are|was|were|be|been|being) said\b|\bsaid (?:aloud|once)\b/i,
    instead: "report, print or write",
    found: "what is said of a verdict",
    left: "the message says so",
  },
  {
    private: new RegExp(
      "\\bhow soon to look\\b|\\b(?:is|are|was|were|be|been) looked (?:at|for)\\b|\\blook(?:s|ed)? (?:once )?again\\b|" +
        `\\b(?:${counted}) looks?\\b(?! (?:like|older|newer)|-)`,
      "i",
    ),
    instead: "reconcile, read or observe",
    found: "how soon to look again",
    left: "look at the pod; as many look-ups; it looks like a number",
  },
  { private: /\bsentences?\b/i, instead: "message", found: "in a sentence" },
  { private: /\bdoors?\b/i, instead: "server, port or endpoint", found: "the door is closed" },
  {
    private: /\b(?:un)?judg(?:e|es|ed|ing|ement)\b/i,
    instead: "decide, check or assess",
    found: "could not judge this",
  },
  {
    private:
      /\b(?:fates?|petitions?|rulings?|errands?|shelf|shelves|vocabulary|strangers?|whereabouts|announcements?|pacer)\b/i,
    instead: "ending, review, decision, run, store, table, unproven client, state, Event, rate limiter",
    found: "strangers have ten places",
  },
  {
    private: /\b(?:wakes?|woken|waking|wakers?|wake-ups?|woke)\b/i,
    instead: "trigger or enqueue",
    found: "an event wakes it",
  },
  { private: /(?<!VIEWS=)\bawake\b/i, instead: "on demand", found: "while it is awake", left: "with VIEWS=awake" },
  {
    private: /\bpace[sd]?\b/i,
    instead: "rate, rate limit or removal policy",
    found: "at that pace",
    left: "the namespace",
  },
  {
    private: /\b(?:is|are|be) led\b/i,
    instead: "follow a leader",
    found: "all that are led",
    left: "this led to a crash",
  },
  { private: /\byoung(?:er)?\b/i, instead: "new, newer or recent", found: "a younger ledger" },
  {
    private: /\bheld (?:reviews?|evictions?)\b/i,
    instead: "parked",
    found: "the held reviews",
    left: "sluice_held_reviews",
  },
  {
    private:
      /\b(?:has|have|with|keeps?|by|in) (?:its|their|the) (?:own )?words\b(?! of a)|\b(?:own|last|server's) words\b/i,
    instead: "message, answer or text",
    found: "the message has its words",
    left: "how many words a sentence has",
  },
  {
    private: /\b(?:reviews?|first|rest|head) of (?:a|the|its) line\b/i,
    instead: "queue",
    found: "the first of a line",
  },
];

interface Exception {
  readonly files: RegExp;
  readonly phrase: RegExp;
  /** Why the field has no other word there. */
  readonly because: string;
}

const exceptions: readonly Exception[] = [
  {
    files: /^CONTRIBUTING\.md$|^test\/(?:rooms|unit\/documents)\.test\.ts$/,
    phrase: /sentence/i,
    because: "of English",
  },
  {
    files: /./,
    phrase: /"sentence"|sentence {2}|guard, sentence, label/,
    because: "field of JSON and of the replay's output",
  },
  {
    files: /^CHANGELOG\.md$/,
    phrase: /called a pass|wrote "looks again"/,
    because: "it tells users which words have changed",
  },
  { files: /^triggers\/telemetry\/README\.md$/, phrase: /door, reason/, because: "label of a metric" },
  { files: /settings|chart\/render/, phrase: /awake/, because: "value of the setting VIEWS" },
  { files: /^knative\/render\/alerts\.ts$/, phrase: /no pass over it/, because: "text of a rendered alert" },
];

interface Piece {
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

const linesOf = (path: string, text: string, first = 1): Piece[] =>
  text.split("\n").map((line, index) => ({ path, line: first + index, text: line.trim() }));

/** Comments, and texts of more than a word, line by line. */
function proseOf(path: string, text: string): Piece[] {
  const comments: Piece[] = [];
  const tokens = tokenizer(text, {
    ecmaVersion: "latest",
    sourceType: "module",
    locations: true,
    onComment: (_block, comment, _start, _end, from) => comments.push(...linesOf(path, comment, from?.line)),
  });
  const texts = [...tokens].flatMap((token) => {
    if (token.type.label !== "string" && token.type.label !== "template") return [];
    return linesOf(path, String((token as { readonly value?: unknown }).value), token.loc?.start.line);
  });
  return [...comments, ...texts.filter((piece) => piece.text.includes(" "))];
}

const documents = read("*.md", "{functions,triggers,knative,test}/**/*.md");
/** These two list the private words. */
const lists = /^test\/(?:words|phrases)\.test\.ts$/;
const pieces = [
  ...documents.flatMap(({ path, text }) => linesOf(path, text)),
  ...sources.filter(({ path }) => !lists.test(path)).flatMap(({ path, text }) => proseOf(path, text)),
];

const exceptionOf = ({ path, text }: Piece) =>
  exceptions.find(({ files, phrase }) => files.test(path) && phrase.test(text));

test("no private word of the glossary is left in documents, comments, messages and names of tests", () => {
  assert.ok(documents.length > 40 && pieces.length > 20_000, `${pieces.length} lines`);
  const offences = pieces.flatMap((piece) => {
    const phrase = phrases.find((one) => one.private.test(piece.text));
    if (phrase === undefined || exceptionOf(piece) !== undefined) return [];
    return [`${piece.path}:${piece.line}: ${phrase.private.exec(piece.text)?.[0]} (${phrase.instead}): ${piece.text}`];
  });
  none(offences, "prose uses the field's words");
});

for (const { private: pattern, instead, found, left } of phrases) {
  test(`the private phrase for ${instead} is found, and ordinary English is not`, () => {
    assert.match(found, pattern);
    if (left !== undefined) assert.doesNotMatch(left, pattern);
  });
}

test("every exception from the private phrases is still needed", () => {
  const isPrivate = ({ text }: Piece) => phrases.some((one) => one.private.test(text));
  const used = new Set(pieces.filter(isPrivate).map(exceptionOf));
  none(
    exceptions.filter((one) => !used.has(one)).map(({ phrase }) => String(phrase)),
    "an exception goes with its text",
  );
});
