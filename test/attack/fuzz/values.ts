/** Values that no client should send, as texts of JSON, including texts that JSON.stringify cannot write. */
import type { Random } from "../../fake-cluster/random.ts";
import { onceIn, pick, whole } from "./chance.ts";

/** Names that point elsewhere, are invalid, or are long. */
const names: readonly string[] = [
  "",
  " ",
  ".",
  "..",
  "../../secrets/x",
  "%",
  "%zz",
  "%2e%2e%2f",
  "%00",
  "a/b",
  "a\\b",
  "a?b=c",
  "a#b",
  "a\u0000b",
  "a\u001b[31mb",
  "a\nERROR b",
  "\u202eecived",
  "\ud800",
  "\udfff\ud800",
  "Ünïcode",
  "💥",
  "UPPER",
  "-a",
  "a-",
  "__proto__",
  "constructor",
  "toString",
  "db-zone-a-999999999999999999999999999999",
  "db-zone-a--1",
  "db-zone-a-01",
  "db-zone-a-1e9",
  "a".repeat(64),
  "a".repeat(254),
  "a".repeat(5_000),
];

const numbers: readonly string[] = [
  "0",
  "-0",
  "-1",
  "2147483648",
  "9007199254740993",
  "1e308",
  "1e309",
  "-1e999999",
  "1e-999999",
  `1${"0".repeat(2_000)}`,
  `0.${"3".repeat(2_000)}`,
];

/** Nearly valid JSON. */
const broken: readonly string[] = [
  "",
  "{",
  "]",
  "nul",
  "NaN",
  "Infinity",
  "01",
  "+1",
  ".5",
  "1.",
  "0x10",
  "'a'",
  '"a',
  '"\\x41"',
  '"\\ud8"',
  '"\t"',
  '{"a":1,}',
  "[1,]",
  "{a:1}",
  "/**/{}",
  "{}{}",
  "\ufeff{}",
];

const depths = [10, 300, 3_000];
const greatDepths = [20_000, 150_000];

/** Deep nesting of lists or of objects. */
export function nested(random: Random): string {
  const depth = pick(random, onceIn(random, 30) ? greatDepths : depths);
  if (onceIn(random, 2)) return "[".repeat(depth) + "]".repeat(depth);
  return `${'{"a":'.repeat(depth)}0${"}".repeat(depth)}`;
}

/** A name that is mostly invalid. */
export function oddName(random: Random): string {
  return pick(random, names);
}

/** The text of a value in valid JSON. */
export function oddValue(random: Random): string {
  switch (whole(random, 0, 9)) {
    case 0:
      return pick(random, ["null", "true", "false", '""', "[]", "{}"]);
    case 1:
      return pick(random, numbers);
    case 2:
      return nested(random);
    case 3:
      return `[${Array.from({ length: whole(random, 1, 4) }, () => oddValue(random)).join(",")}]`;
    case 4:
      return `{${JSON.stringify(oddName(random))}:${oddValue(random)},"metadata":${oddValue(random)}}`;
    case 5:
      return `{"__proto__":{"kind":"AdmissionReview","namespace":"demo"},"constructor":{"prototype":{}}}`;
    default:
      return JSON.stringify(oddName(random));
  }
}

/** An object with these fields, some of which get odd values, disappear or come twice. */
export function oddObject(random: Random, fields: Readonly<Record<string, string>>): string {
  const parts = Object.entries(fields).flatMap(([name, text]) => {
    const key = JSON.stringify(name);
    if (onceIn(random, 12)) return [];
    if (onceIn(random, 25)) return [`${key}:${text}`, `${key}:${oddValue(random)}`];
    return [`${key}:${onceIn(random, 5) ? oddValue(random) : text}`];
  });
  return `{${parts.join(",")}}`;
}

/** The bytes of a body: the text, or a corrupted one. */
export function bodyOf(random: Random, text: string): Buffer {
  switch (whole(random, 0, 11)) {
    case 0:
      return Buffer.from(pick(random, broken));
    case 1:
      return Buffer.from(text.slice(0, whole(random, 0, text.length)));
    case 2:
      return withBadUtf8(random, Buffer.from(text));
    case 3:
      return Buffer.from(text, "utf16le");
    case 4:
      return Buffer.from(text + pick(random, broken));
    default:
      return Buffer.from(text);
  }
}

/** Bytes with faults in their UTF-8: lone and overlong bytes, surrogates, and code points above U+10FFFF. */
function withBadUtf8(random: Random, bytes: Buffer): Buffer {
  const spoilt = Buffer.from(bytes);
  const bad = [0x80, 0xc0, 0xc1, 0xed, 0xf5, 0xfe, 0xff];
  for (let times = whole(random, 1, 5); times > 0 && spoilt.length > 0; times--) {
    spoilt[whole(random, 0, spoilt.length - 1)] = pick(random, bad);
  }
  return spoilt;
}
