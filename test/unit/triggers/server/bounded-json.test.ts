/** JSON of unproven clients: what is read, and what is refused because of its nesting. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { deepestJson, mostJsonValues, parseBoundedJson } from "../../../../triggers/server/bounded-json.ts";

const parse = (text: string) => parseBoundedJson(Buffer.from(text));
const nested = (depth: number, filler = "") => `${"[".repeat(depth)}${filler}${"]".repeat(depth)}`;
/** Enough that the server does not treat the body as a short one. */
const long = JSON.stringify("x".repeat(mostJsonValues));

test("what is nested too deep is not read, in a short body and in a long one, by lists and by objects", () => {
  for (const filler of ["", long]) {
    assert.ok("value" in parse(nested(deepestJson, filler)), filler.slice(0, 3));
    assert.deepEqual(parse(nested(deepestJson + 1, filler)), { because: "the body is nested more than 100 deep" });
  }
  const half = deepestJson / 2;
  const object = `${'{"a":['.repeat(half + 1)}${"]}".repeat(half + 1)}`;
  assert.deepEqual(parse(object), { because: "the body is nested more than 100 deep" });
});

test("what stands in strings is not nested, however many brackets it has", () => {
  for (const filler of ["", "x".repeat(mostJsonValues)]) {
    const text = `${"[".repeat(1_000)}\\"${"{".repeat(1_000)}${filler}`;
    assert.deepEqual(parse(`{"a":"${text}","b":[1]}`), { value: { a: text.replaceAll("\\", ""), b: [1] } });
  }
});

test("many objects beside one another are read, up to the bound of values", () => {
  assert.ok("value" in parse(`[${Array(1_000).fill("{}").join(",")}]`));
  const many = `[${Array(mostJsonValues + 1)
    .fill("1")
    .join(",")}]`;
  assert.deepEqual(parse(many), { because: `the body holds more than ${mostJsonValues} values` });
});

test("nothing but blanks is no value, and what is not JSON says so, whole or cut in a character", () => {
  assert.deepEqual(parse(" \n"), { value: undefined });
  assert.deepEqual(parse('{"a":'), { because: "the body is not JSON" });
  assert.deepEqual(parseBoundedJson(Buffer.from([0x7b, 0xc3])), { because: "the body is not JSON" });
});
