/** Identifiers and names of files are made of the field's words: a reader needs no private dictionary. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { tokenizer } from "acorn";
import { none, product, type Source, tests } from "./support/tree.ts";

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
  {
    names: ["sentence"],
    files:
      /^(functions\/show-status\/.+|.+\/contract\/status|triggers\/(status\/.+|plugin\/(decide-changes|status-text)))\.ts$/,
    because: "field of JSON: the status has the fields of kubectl sluice why -o json",
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
  { names: ["fenceHold"], because: "annotation sluice.dev/fence-hold" },
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
  // Next to `up`, `look` is no private word.
  return parts.filter((part, index) => !/^look(?:ed)?$/.test(part) || !/^ups?$/.test(parts[index + 1] ?? ""));
}

const isExcepted = (name: string, path: string, from: readonly Exception[]) =>
  from.some(({ names, files }) => names.includes(name) && (files === undefined || files.test(path)));

/** Tests also name what the product excepts, by its keys; what follows is theirs alone. */
const exceptionsOfTests: readonly Exception[] = [
  { names: ["sentence"], because: "field of JSON; and sentences of English in the tests of documents" },
  { names: ["sentences", "sentencesOf"], files: /\/documents\.test\.ts$/, because: "sentences of English" },
  { names: ["words"], because: "words of a command line or of a text" },
  {
    names: ["wordsIn", "wordsPerSentence", "wordsOnAverage"],
    files: /documents\.test\.ts$|declared-changes\.ts$/,
    because: "words of a text",
  },
  { names: ["privateWords"], files: /words\.test\.ts$/, because: "this test" },
  { names: ["gate", "gates", "gateOf", "Gate", "GateEnd", "GateOptions"], because: "the stop gate" },
  {
    names: ["announce", "announced", "isAnnounced", "announceOutage"],
    because: "terms of a claim: announced (rule R17)",
  },
  { names: ["withoutHold", "onHold", "_hold"], because: "annotation sluice.dev/hold" },
  { names: ["VOLUME_HOLD"], because: "the setting of that name" },
  { names: ["holdProcessGroup"], because: "function hold-process-groups" },
  { names: ["PassThrough"], because: "a class of Node" },
];
const isGateSetting = (name: string) => name.startsWith("STOP_GATE_");

interface Found {
  readonly path: string;
  readonly names: ReadonlySet<string>;
}

const namesOf = (of: readonly Source[]): Found[] => of.map(({ path, text }) => ({ path, names: identifiersOf(text) }));
const found = namesOf(product);
/** This file lists the private words, as keys of an object. */
const foundInTests = namesOf(tests.filter(({ path }) => path !== "test/words.test.ts"));

function offencesOf(where: readonly Found[], from: readonly Exception[]): string[] {
  return where.flatMap(({ path, names }) =>
    [...names].flatMap((name) => {
      const word = partsOf(name).find((part) => Object.hasOwn(privateWords, part));
      if (word === undefined || isExcepted(name, path, from)) return [];
      return [`${path}: ${name} (${word}: ${privateWords[word]})`];
    }),
  );
}

test("no private word of the glossary is left in identifiers of the product", () => {
  assert.ok(found.length > 100 && found.every(({ names }) => names.size > 0));
  none(offencesOf(found, exceptions), "an identifier is made of the field's words");
});

test("no private word of the glossary is left in identifiers of the tests", () => {
  assert.ok(foundInTests.length > 500);
  const anywhere = exceptions.map(({ names, because }) => ({ names, because }));
  const offences = offencesOf(foundInTests, [...anywhere, ...exceptionsOfTests]);
  none(
    offences.filter((offence) => !isGateSetting(offence.split(" ")[1] ?? "")),
    "an identifier is made of the field's words",
  );
});

/** Files of what users have written down by that name; of the stop gate, of rule R17, and of words. */
const exceptedFiles: readonly string[] = [
  "functions/hold-process-groups/",
  "functions/shared/suspension/looks.ts",
  "test/unit/functions/hold-process-groups/",
  "test/knative/hold-process-group.ts",
  "test/knative/throw-away/announce-outage/",
  "test/support/held-groups.ts",
  "test/rabbitmq/gate",
  "test/words.test.ts",
];

test("no private word of the glossary is left in names of files", () => {
  const offences = [...product, ...tests].flatMap(({ path }) => {
    const excepted = exceptedFiles.some((prefix) => path.startsWith(prefix));
    const parts = excepted ? [] : path.replace(/(?:\.test)?\.ts$/, "").split(/[/-]/);
    const word = parts.find((part, index) => Object.hasOwn(privateWords, part) && parts[index + 1] !== "ups");
    return word === undefined ? [] : [`${path} (${word}: ${privateWords[word]})`];
  });
  none(offences, "a file is named by the field's words");
});

test("every exception from the private words stands in the product still, and each of the tests in a test", () => {
  const stale = (where: readonly Found[], from: readonly Exception[]) => {
    const all = new Set(where.flatMap(({ names }) => [...names]));
    return from.flatMap(({ names }) => names.filter((name) => !all.has(name)));
  };
  const inTests = stale(namesOf(tests), exceptionsOfTests);
  none([...stale(found, exceptions), ...inTests], "an exception goes with its name");
});
