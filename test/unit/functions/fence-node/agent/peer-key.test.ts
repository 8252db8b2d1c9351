import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { createPeerKey, isSignedBy, openPeerKey } from "../../../../../functions/fence-node/agent/peer-key.ts";
import { fingerprintOf } from "../../../../../functions/fence-node/fingerprint.ts";
import { agentKey, parsePeers } from "../../../../../functions/shared/annotations/fencing-peers.ts";

const base64 = (hex: string): string => Buffer.from(hex, "hex").toString("base64url");

/** The first test vector of RFC 8032: a signature of no bytes. */
const known = {
  secret: base64("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"),
  publicKey: base64("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"),
  signature: base64(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
  ),
};
const bytes = Buffer.from("bytes");

suite("the key of an agent", () => {
  test("a signature is that of Ed25519", () => {
    const key = openPeerKey(known.publicKey, known.secret);
    assert.equal(key?.sign(Buffer.alloc(0)), known.signature);
    assert.equal(isSignedBy(known.publicKey, Buffer.alloc(0), known.signature), true);
  });

  test("a new key is another one each time, and stands in a Lease", () => {
    const [key, other] = [createPeerKey(), createPeerKey()];
    assert.notEqual(key.publicKey, other.publicKey);
    assert.equal(agentKey.parse(key.publicKey), key.publicKey);
    assert.equal(isSignedBy(key.publicKey, bytes, key.sign(bytes)), true);
  });

  test("a key that is opened again makes the same signatures", () => {
    const key = createPeerKey();
    const again = openPeerKey(key.publicKey, key.secret);
    assert.equal(again?.sign(bytes), key.sign(bytes));
    assert.deepEqual([again?.publicKey, again?.secret], [key.publicKey, key.secret]);
  });

  test("halves of two keys, and text that is no key, open nothing", () => {
    const key = createPeerKey();
    assert.equal(openPeerKey(createPeerKey().publicKey, key.secret), undefined);
    for (const text of ["", "x", "=".repeat(43), key.secret.slice(1), `${key.secret}A`]) {
      assert.equal(openPeerKey(key.publicKey, text), undefined, text);
      assert.equal(openPeerKey(text, key.secret), undefined, text);
    }
  });

  test("a signature by another key, of other bytes, or changed in one bit counts for nothing", () => {
    const key = createPeerKey();
    const signature = key.sign(bytes);
    assert.equal(isSignedBy(createPeerKey().publicKey, bytes, signature), false);
    assert.equal(isSignedBy(key.publicKey, Buffer.from("other"), signature), false);
    for (let index = 0; index < 64; index++) {
      const changed = Buffer.from(signature, "base64url");
      changed[index] = (changed[index] ?? 0) ^ 1;
      assert.equal(isSignedBy(key.publicKey, bytes, changed.toString("base64url")), false, String(index));
    }
  });

  test("text that is no key or no signature counts for nothing, and throws nothing", () => {
    const key = createPeerKey();
    const signature = key.sign(bytes);
    for (const text of [
      "",
      "x",
      "\u0000",
      signature.slice(1),
      `${signature}A`,
      `${signature}, ${signature}`,
      "é".repeat(86),
    ]) {
      assert.equal(isSignedBy(key.publicKey, bytes, text), false, text);
      assert.equal(isSignedBy(text, bytes, signature), false, text);
    }
  });

  test("a fingerprint is the start of the SHA-256 of the raw key, and stands in a list of peers", () => {
    const fingerprint = fingerprintOf(known.publicKey);
    // printf d75a98... | xxd -r -p | sha256sum
    assert.equal(fingerprint, "21fe31dfa154a261");
    assert.deepEqual(parsePeers(`node-1=${fingerprint}`), [{ name: "node-1", fingerprint }]);
  });
});
