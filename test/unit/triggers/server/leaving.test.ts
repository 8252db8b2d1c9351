/** A client disconnects during its review: the function learns of it, unless the client already has its answer. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { test } from "node:test";
import { allow } from "../../../../functions/shared/admission/answers.ts";
import type { AdmissionAnswer, AdmissionRequest } from "../../../../functions/shared/admission/definition.ts";
import { listen } from "../../../../triggers/server/server.ts";
import { createTestApp, validation } from "../../../support/app.ts";

const review = {
  apiVersion: "admission.k8s.io/v1",
  kind: "AdmissionReview",
  request: { uid: "u-1", operation: "CREATE", namespace: "mimir", name: "ingester", object: {} },
};

/** A function that answers when the test permits it, and its port. */
async function testApp() {
  const asked: { request: AdmissionRequest; answer: (answer: AdmissionAnswer) => void }[] = [];
  const handler = {
    review: (request: AdmissionRequest) => new Promise<AdmissionAnswer>((answer) => asked.push({ request, answer })),
  };
  const { app } = createTestApp({ admissions: [{ ...validation, handler }] });
  const listening = await listen(app, { port: 0, requestTimeoutMs: 10_000 });
  const post = () => {
    const options = { method: "POST", port: listening.port, path: "/admission/zpdb-validation" };
    const sent = request({ ...options, headers: { "content-type": "application/json" } });
    sent.end(JSON.stringify(review));
    return sent;
  };
  const whenAsked = async (count: number) => {
    while (asked.length < count) await new Promise((resolve) => setImmediate(resolve));
    return asked[count - 1] as (typeof asked)[number];
  };
  return { post, whenAsked, close: () => listening.close(AbortSignal.abort()) };
}

test("the function learns that a client has disconnected during its review, and only of that client", async () => {
  const { post, whenAsked, close } = await testApp();
  const stays = post();
  const first = await whenAsked(1);
  const leaves = post();
  leaves.on("error", () => {});
  const second = await whenAsked(2);
  const { signal } = second.request;
  assert.equal(signal?.aborted, false);
  const gone = once(signal as AbortSignal, "abort");
  leaves.destroy();
  await gone;
  assert.equal(first.request.signal?.aborted, false);
  first.answer(allow("not-a-downscale"));
  const [response] = await once(stays, "response");
  response.resume();
  await once(response, "end");
  await close();
  assert.equal(first.request.signal?.aborted, false, "a client with its answer has not disconnected");
});

test("a review without a connection, as in a replay, has no client that could disconnect", async () => {
  let signal: AbortSignal | undefined | "unasked" = "unasked";
  const handler = {
    review: async (asked: AdmissionRequest) => {
      signal = asked.signal;
      return allow("not-a-downscale");
    },
  };
  const { app } = createTestApp({ admissions: [{ ...validation, handler }] });
  const headers = { "content-type": "application/json" };
  await app.request("/admission/zpdb-validation", { method: "POST", headers, body: JSON.stringify(review) });
  assert.equal(signal, undefined);
});
