/** Identifiers of the product are made of the field's words: a reader needs no private dictionary. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { tokenizer } from "acorn";
import { none, product } from "./support/tree.ts";

/** Each private word, with the field's words for it. */
const privateWords: Readonly<Record<string, string>> = {
  sentence: "message",
  sentences: "messages",
  look: "observe, read, check, transaction or attempt",
  looks: "rounds or checks",
  looked: "attempt",
  looking: "refreshing",
  say: "record, report, print or describe",
  says: "meaning",
  said: "what it is: a duration, an event, a verdict",
  saying: "recording",
  tell: "notify or record",
  tells: "notifies",
  told: "notified, or what it is",
  telling: "eventPolicy or notification",
  teller: "source or reporter",
  wake: "enqueue, or the trigger",
  wakes: "enqueues",
  woken: "triggered, or the source",
  waking: "source",
  wakers: "triggeredBy",
  door: "server, port or endpoint",
  doors: "servers, ports or endpoints",
  awake: "onDemand or watched",
  shelf: "store",
  hear: "note",
  hears: "notes",
  heard: "accepted, sent or lastEvent",
  announce: "record",
  announced: "sentEvents",
  announcement: "event",
  announcements: "events",
  petition: "review",
  petitions: "reviews",
  ruling: "decision",
  rulings: "decisions",
  errand: "run or round",
  errands: "runs or rounds",
  stranger: "foreign, unknown or unproven",
  strangers: "foreign, unknown or unproven",
  held: "blocked, parked, or hasOurFinalizer",
  hold: "block or park",
  unheld: "unparked or unfinalized",
  judge: "decide, or the handler",
  judges: "decides",
  judged: "decided, or the decision",
  judging: "deciding",
  judgement: "decision or assessment",
  fate: "decision",
  led: "follower",
  young: "tooNew",
  sight: "noteOverdue",
  sighted: "overdueSeen",
  words: "message, detail, texts or annotations",
  vocabulary: "keys",
  pace: "rate, rateLimit or removalPolicy",
  paces: "rates",
  paced: "limited",
  pacer: "rateLimiter",
  pass: "reconcile or verdict",
  passes: "reconciles",
  acting: "pendingActs",
  gate: "reconciler or decider",
  gates: "reconcilers or deciders",
};

interface Exception {
  readonly names: readonly string[];
  /** The only files that may have them; absent: any. */
  readonly files?: RegExp;
  /** What users have written down, and gives the name. */
  readonly because: string;
}

const exceptions: readonly Exception[] = [
  {
    names: ["sentence"],
    files:
      /^functions\/shared\/(annotations\/skip-labels|ledger\/\w+|reconcile\/record)\.ts$|^triggers\/plugin\/\w+\.ts$/,
    because: "field of JSON: sluice.dev/verdicts, sluice.dev/skip-status, kubectl sluice why -o json",
  },
  { names: ["toldAt", "ToldAt", "parseToldAt"], because: "field of a claim in sluice.dev/claims" },
  { names: ["door"], because: "label of a metric" },
  { names: ["looks", "Looks", "parseLooks", "formatLooks"], because: "annotation sluice.dev/looks" },
  { names: ["hold", "isOnHold", "whyUntimedOnHold"], because: "annotation sluice.dev/hold" },
  { names: ["volumeHold", "volumeHoldSetting"], because: "finalizer sluice.dev/volume-hold and setting VOLUME_HOLD" },
  { names: ["removalHeld", "isRemovalHeld"], because: "annotation sluice.dev/removal-held" },
  {
    names: ["HeldGroup", "HeldGroups", "heldGroup", "heldGroups", "heldGroupsRequeueMs", "hasHeldGroups"],
    because: "annotation sluice.dev/held-process-groups",
  },
  { names: ["parseHeld", "formatHeld", "decideHeldGroup"], because: "annotation sluice.dev/held-process-groups" },
  { names: ["groupHeld"], because: "reason ProcessGroupHeld of an Event" },
  { names: ["holdProcessGroups"], because: "function hold-process-groups" },
  { names: ["nextToAnnounce"], because: "terms of a claim: announced (rule R17)" },
];

/** The identifiers of a source, each once: no comment, no text. */
function identifiersOf(text: string): ReadonlySet<string> {
  const tokens = [...tokenizer(text, { ecmaVersion: "latest", sourceType: "module" })];
  const names = tokens.filter(({ type }) => type.label === "name" || type.label === "privateId");
  return new Set(names.map((token) => String((token as { readonly value?: unknown }).value)));
}

function partsOf(identifier: string): readonly string[] {
  const parts = identifier.split(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_/).map((part) => part.toLowerCase());
  // A look-up is a look-up.
  return parts.filter((part, index) => part !== "look" || !/^ups?$/.test(parts[index + 1] ?? ""));
}

const isExcepted = (name: string, path: string) =>
  exceptions.some(({ names, files }) => names.includes(name) && (files === undefined || files.test(path)));

const found = product.map(({ path, text }) => ({ path, names: identifiersOf(text) }));

test("no private word of the glossary is left in identifiers of the product", () => {
  assert.ok(found.length > 100 && found.every(({ names }) => names.size > 0));
  const offences = found.flatMap(({ path, names }) =>
    [...names].flatMap((name) => {
      const word = partsOf(name).find((part) => Object.hasOwn(privateWords, part));
      return word === undefined || isExcepted(name, path) ? [] : [`${path}: ${name} (${word}: ${privateWords[word]})`];
    }),
  );
  none(offences, "an identifier is made of the field's words");
});

/** Files of what users have written down by that name. */
const exceptedFiles: readonly string[] = ["functions/hold-process-groups/", "functions/shared/suspension/looks.ts"];

test("no private word of the glossary is left in names of files of the product", () => {
  const offences = product.flatMap(({ path }) => {
    const excepted = exceptedFiles.some((prefix) => path.startsWith(prefix));
    const parts = excepted ? [] : path.replace(/\.ts$/, "").split(/[/-]/);
    const word = parts.find((part, index) => Object.hasOwn(privateWords, part) && parts[index + 1] !== "ups");
    return word === undefined ? [] : [`${path} (${word}: ${privateWords[word]})`];
  });
  none(offences, "a file is named by the field's words");
});

test("every exception from the private words stands in the product still", () => {
  const all = new Set(found.flatMap(({ names }) => [...names]));
  const stale = exceptions.flatMap(({ names }) => names.filter((name) => !all.has(name)));
  none(stale, "an exception goes with its name");
});
