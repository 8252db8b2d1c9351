import assert from "node:assert/strict";
import { test } from "node:test";
import { askHealth } from "../../../../functions/shared/health/ask-health.ts";
import type { PodAddress, PodAnswer } from "../../../../functions/shared/http/pod-http.ts";
import type { Health } from "../../../../functions/shared/ledger/health-rule.ts";
import { withPods } from "../../../support/played-pods.ts";

const path = "/api/health/checks/node-is-quorum-critical";

test("200 is a good answer and 503 a bad one; any other status is no answer to the question", async () => {
  await withPods({}, async ({ address, pods, asked, answer }) => {
    const states: Record<number, Health["state"]> = {};
    for (const status of [200, 204, 302, 401, 403, 404, 500, 502, 503]) {
      answer(({ response }) => response.writeHead(status).end());
      states[status] = (await askHealth(pods, { address, path, headers: { authorization: "Basic Zw==" } })).state;
    }
    assert.deepEqual(states, {
      200: "good",
      204: "good",
      302: "unknown",
      401: "unknown",
      403: "unknown",
      404: "unknown",
      500: "unknown",
      502: "unknown",
      503: "bad",
    });
    const [{ request } = assert.fail()] = asked;
    assert.deepEqual([request.method, request.url, request.headers.authorization], ["GET", path, "Basic Zw=="]);
  });
});

test("the detail quotes the pod's own answer up to a limit", async () => {
  await withPods({}, async ({ address, pods, answer }) => {
    answer(({ response }) => response.writeHead(503).end(`{"reason":"quorum"}\n`));
    assert.equal((await askHealth(pods, { address, path })).detail, 'HTTP 503 {"reason":"quorum"}');
    answer(({ response }) => response.writeHead(503).end("x".repeat(10_000)));
    assert.equal((await askHealth(pods, { address, path })).detail.length, 300);
  });
});

test("a pod that is not reached is unknown, and the detail gives the reason", async () => {
  await withPods({ timeoutMs: 150 }, async ({ address, pods, answer }) => {
    answer(() => {});
    const hung = await askHealth(pods, { address, path });
    assert.deepEqual(hung.state, "unknown");
    assert.match(hung.detail, /no answer within 150 ms$/);
    const wrong: PodAddress = { ...address, port: 0 };
    assert.match((await askHealth(pods, { address: wrong, path })).detail, /"0" is no port/);
    const given = await askHealth(pods, { address, path }, { signal: AbortSignal.abort() });
    assert.deepEqual([given.state, /given up/.test(given.detail)], ["unknown", true]);
  });
});

test("the status of an answer that is too long to be read still counts", async () => {
  await withPods({}, async ({ address, pods, answer }) => {
    answer(({ response }) => response.writeHead(503).end("x".repeat(2_000_000)));
    assert.equal((await askHealth(pods, { address, path })).state, "bad");
    const read = (): Health => assert.fail("there is nothing to read");
    assert.equal((await askHealth(pods, { address, path, read })).state, "bad", "a bad answer need not be read");
    answer(({ response }) => response.writeHead(200).end("x".repeat(2_000_000)));
    assert.equal((await askHealth(pods, { address, path })).state, "good");
    assert.equal((await askHealth(pods, { address, path, read })).state, "unknown");
  });
});

test("a question may have a reader of its own, whose errors are not taken for an answer of the pod", async () => {
  await withPods({}, async ({ address, pods, answer }) => {
    answer(({ response }) => response.writeHead(200).end('{"status":"red"}'));
    const read = ({ body }: PodAnswer): Health => ({
      state: JSON.parse(body).status === "red" ? "bad" : "good",
      detail: body,
    });
    assert.deepEqual(await askHealth(pods, { address, path, read }), { state: "bad", detail: '{"status":"red"}' });
    answer(({ response }) => response.end("none"));
    await assert.rejects(askHealth(pods, { address, path, read }), SyntaxError);
  });
});
