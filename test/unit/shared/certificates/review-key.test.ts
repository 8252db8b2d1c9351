/** API servers' key in the Secret and in a path: anything malformed counts as no key. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import {
  dataOfFirstKey,
  dataOfKeyPromotion,
  dataOfNextKey,
  encodeReviewKey,
  generateReviewKey,
  isReviewKey,
  parseReviewKeys,
  reviewKeyFault,
  splitPath,
  takesKey,
  withKey,
} from "../../../../functions/shared/certificates/review-key.ts";

const newKey = () => randomBytes(32).toString("hex");
const path = "/admission/pod-eviction";

test("each key that was written into the Secret is read back", () => {
  const keys = { current: newKey(), next: newKey(), previous: newKey() };
  const data = {
    "review-key": encodeReviewKey(keys.current),
    "next-review-key": encodeReviewKey(keys.next),
    "previous-review-key": encodeReviewKey(keys.previous),
  };
  assert.deepEqual(parseReviewKeys({ data }), keys);
  for (const key of Object.values(keys)) assert.ok(isReviewKey(key, parseReviewKeys({ data })));
});

test("a missing key, one of 10 bytes or 1 MiB, and one that is no base64 count as none", () => {
  const none = { current: undefined, next: undefined, previous: undefined };
  assert.deepEqual(parseReviewKeys({}), none);
  for (const text of ["", "====", randomBytes(10).toString("base64"), randomBytes(2 ** 20).toString("base64")])
    assert.deepEqual(parseReviewKeys({ data: { "review-key": text } }), none);
  assert.ok(!isReviewKey("", none) && !isReviewKey(newKey(), none));
});

test("a path is split after its key, and joined again with another key", () => {
  const key = newKey();
  assert.deepEqual(splitPath(`/${key}${path}`), { key, path });
  assert.equal(withKey(path, key), `/${key}${path}`);
  assert.equal(withKey(withKey(path, newKey()), key), `/${key}${path}`);
});

test("a key in upper case, escaped, shortened, doubled, alone or in the query does not count", () => {
  const key = newKey();
  const others = [
    path,
    `/${key.toUpperCase().replace(/^[0-9]/, "A")}${path}`,
    `/${key.slice(1)}${path}`,
    `/%2e${key.slice(3)}${path}`,
    `/${key}`,
    `/${key}/`,
    `/${key}//admission`,
    `/admission/${key}`,
    `${path}?key=${key}`,
  ];
  for (const one of others) assert.deepEqual(splitPath(one), { key: undefined, path: one });
  assert.deepEqual(splitPath(`/${key}/${key}${path}`), { key, path: `/${key}${path}` }, "no path of Sluice is left");
});

test("a key is random, and the error about the Secret says what it has instead of a key", () => {
  const [one, other] = [generateReviewKey(), generateReviewKey()];
  assert.ok(one !== other && /^[0-9a-f]{64}$/.test(one));
  const faultOf = (text?: string) => reviewKeyFault({ data: text === undefined ? {} : { "review-key": text } });
  assert.equal(reviewKeyFault({}), "there is no review-key");
  assert.equal(faultOf(""), "there is no review-key");
  assert.equal(faultOf(randomBytes(10).toString("base64")), "its review-key has 10 bytes, and not 32");
  assert.equal(faultOf(randomBytes(2 ** 20).toString("base64")), "its review-key has 1048576 bytes, and not 32");
  assert.equal(faultOf(encodeReviewKey(one)), undefined);
});

test("a new first key replaces the existing one, which stays valid, and a promotion does the same with the next key", () => {
  const [current, next, previous] = [newKey(), newKey(), newKey()];
  const [one, two] = [encodeReviewKey(current), encodeReviewKey(next)];
  const none = { current: undefined, next: undefined, previous };
  assert.deepEqual(dataOfFirstKey(current, none), { "review-key": one });
  assert.deepEqual(dataOfFirstKey(next, { ...none, current }), { "review-key": two, "previous-review-key": one });
  assert.deepEqual(dataOfNextKey(next), { "next-review-key": two });
  assert.deepEqual(dataOfKeyPromotion({ current, next, previous }), {
    "review-key": two,
    "previous-review-key": one,
    "next-review-key": null,
  });
  assert.deepEqual(dataOfKeyPromotion({ current, next: undefined, previous }), { "next-review-key": null });
});

test("a key can precede only a path of at least one segment", () => {
  for (const one of ["/a", path, `/${newKey()}/a`]) assert.ok(takesKey(one));
  for (const one of [undefined, "", "/", "//a", "a"]) assert.ok(!takesKey(one));
});
