/** Which certificates a client of pods trusts, for which name, and how it reports a host. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createAuthority } from "../../../support/certificates.ts";
import { get, post, rejection, withPods } from "../../../support/played-pods.ts";

const limit = { timeout: 20_000 };
const [authority, other] = [await createAuthority(), await createAuthority()];
const name = "web-0.web.ns.svc.cluster.local";
const secure = await authority.issue(name);

describe("https", limit, () => {
  test("a certificate of the given authority, for the pod's name without the dot at its end, is trusted", async () => {
    await withPods({ secure }, async ({ address, pods, asked }) => {
      assert.equal((await pods.send({ ...address, authorities: authority.cert }, get)).body, "ok");
      const [{ request } = assert.fail()] = asked;
      assert.equal((request.socket as unknown as { servername: unknown }).servername, name);
    });
  });

  const untrusted = [
    { what: "of another authority", authorities: other.cert, pod: "web-0" },
    { what: "of an authority that the caller did not name", authorities: undefined, pod: "web-0" },
    { what: "for another pod's name", authorities: authority.cert, pod: "web-1" },
  ];
  for (const { what, authorities, pod } of untrusted) {
    test(`a certificate ${what} is not trusted, and nothing is sent`, async () => {
      await withPods({ secure }, async ({ address, pods, asked }) => {
        const error = await rejection(pods.send({ ...address, pod, authorities }, get));
        assert.deepEqual([error.failed, error.sent, asked.length], ["connection", false, 0]);
      });
    });
  }

  test("a call may name its own authority, and uses no connection of another authority", async () => {
    await withPods({ secure }, async ({ address, pods, asked, sockets }) => {
      const trusting = { ...address, authorities: authority.cert };
      assert.equal((await pods.send(trusting, get)).body, "ok");
      for (const [authorities, isUntrusted] of [
        [other.cert, true],
        [undefined, true],
      ] as const) {
        const error = await rejection(pods.send({ ...address, authorities }, get));
        assert.deepEqual([error.failed, error.sent, error.isUntrusted], ["connection", false, isUntrusted]);
      }
      const named = await rejection(pods.send({ ...trusting, pod: "web-1" }, get));
      assert.equal(named.isUntrusted, false, "for another pod's name, so that its authority is not at fault");
      assert.match(named.message, /web-1\.web\.ns\.svc\.cluster\.local.* altnames/);
      assert.equal((await pods.send(trusting, get)).body, "ok");
      assert.deepEqual([asked.length, sockets.length > 2], [2, true]);
    });
  });

  test("of many authorities the oldest lose their connections, and are trusted again when they are named", async () => {
    await withPods({ secure }, async ({ address, pods, asked }) => {
      const bundles = Array.from({ length: 40 }, (_, index) => `${authority.cert}${"\n".repeat(index)}`);
      await Promise.all(bundles.map((authorities) => pods.send({ ...address, authorities }, get)));
      assert.equal((await pods.send({ ...address, authorities: bundles[0] }, get)).body, "ok");
      assert.equal(asked.length, 41);
    });
  });

  test("a server that does not speak TLS gets no request in plain text", async () => {
    await withPods({}, async ({ address, pods, asked }) => {
      const authorities = authority.cert;
      const error = await rejection(pods.send({ ...address, authorities, scheme: "https" }, get));
      assert.deepEqual([error.failed, error.sent, asked.length], ["connection", false, 0]);
    });
  });
});

test(
  "the header Host has no dot at the end of the name, because a proxy in between knows no such host",
  limit,
  async () => {
    await withPods({}, async ({ address, pods, asked, resolved }) => {
      await pods.send(address, get);
      await pods.send(address, post);
      assert.deepEqual(
        asked.map(({ request }) => request.headers.host),
        [`${name}:${address.port}`, `${name}:${address.port}`],
      );
      assert.deepEqual(
        [...new Set(resolved)],
        [`${name}.`],
        "the resolver gets the dot, so that it tries no search list",
      );
    });
  },
);
