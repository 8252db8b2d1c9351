/** JSON of unproven clients: what the server reads, and what it refuses because of its nesting. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { deepestJson, mostJsonValues, parseBoundedJson } from "../../../../triggers/server/bounded-json.ts";

const parse = (text: string) => parseBoundedJson(Buffer.from(text));
const nested = (depth: number, filler = "") => `${"[".repeat(depth)}${filler}${"]".repeat(depth)}`;
/** Enough that the server does not treat the body as a short one. */
const long = JSON.stringify("x".repeat(mostJsonValues));

test("JSON that is nested too deep is refused, in short and long bodies, in lists and objects", () => {
  for (const filler of ["", long]) {
    assert.ok("value" in parse(nested(deepestJson, filler)), filler.slice(0, 3));
    assert.deepEqual(parse(nested(deepestJson + 1, filler)), { because: "the body is nested more than 100 deep" });
  }
  const half = deepestJson / 2;
  const object = `${'{"a":['.repeat(half + 1)}${"]}".repeat(half + 1)}`;
  assert.deepEqual(parse(object), { because: "the body is nested more than 100 deep" });
});

test("brackets inside strings do not count as nesting, however many there are", () => {
  for (const filler of ["", "x".repeat(mostJsonValues)]) {
    const text = `${"[".repeat(1_000)}\\"${"{".repeat(1_000)}${filler}`;
    assert.deepEqual(parse(`{"a":"${text}","b":[1]}`), { value: { a: text.replaceAll("\\", ""), b: [1] } });
  }
});

test("objects beside one another are read, up to the limit of values", () => {
  assert.ok("value" in parse(`[${Array(1_000).fill("{}").join(",")}]`));
  const many = `[${Array(mostJsonValues + 1)
    .fill("1")
    .join(",")}]`;
  assert.deepEqual(parse(many), { because: `the body holds more than ${mostJsonValues} values` });
});

test("blanks alone are no value, and other malformed JSON is reported, even if it is cut inside a character", () => {
  assert.deepEqual(parse(" \n"), { value: undefined });
  assert.deepEqual(parse('{"a":'), { because: "the body is not JSON" });
  assert.deepEqual(parseBoundedJson(Buffer.from([0x7b, 0xc3])), { because: "the body is not JSON" });
});
