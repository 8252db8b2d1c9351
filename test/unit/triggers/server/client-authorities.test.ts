/**
 * Which clients may post reviews: none on the plain port, and on the TLS port those with a certificate of the given
 * authorities.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { Agent, request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import {
  certificateInFiles,
  readClientAuthorities,
  withClientAuthorities,
} from "../../../../triggers/server/certificate-source.ts";
import { createAdmissionApp, listen } from "../../../../triggers/server/server.ts";
import { admissionFunctions } from "../../../../triggers/table.ts";
import { createTestApp, quietServer, validation } from "../../../support/app.ts";
import { createAuthority, type IssuedPair } from "../../../support/certificates.ts";

const [ours, clients, others] = await Promise.all([createAuthority(), createAuthority(), createAuthority()]);
const path = "/admission/zpdb-validation";
const review = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request: { uid: "1" } };

async function createFiles(context: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), "sluice-clients-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  const files = { certFile: join(folder, "tls.crt"), keyFile: join(folder, "tls.key"), caFile: join(folder, "ca.crt") };
  const pair = await ours.issue();
  await writeFile(files.certFile, pair.cert);
  await writeFile(files.keyFile, pair.key);
  await writeFile(files.caFile, clients.cert);
  return files;
}

/** A source of pairs for the TLS port, and the errors that it has reported. */
async function createSource(context: TestContext) {
  const files = await createFiles(context);
  const troubles: string[] = [];
  const first = await readClientAuthorities(files.caFile);
  const onTrouble = (message: string) => void troubles.push(message);
  const source = withClientAuthorities(certificateInFiles(files), { file: files.caFile, first, onTrouble });
  return { files, troubles, source };
}

interface Answer {
  readonly status: number | undefined;
  readonly text: string;
}

function ask(port: number, options: object, where = path): Promise<Answer> {
  const headers = { "content-type": "application/json" };
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const target = { host: "127.0.0.1", port, path: where, method: "POST", headers, ca: ours.cert, ...options };
  const asked = request(target, (response) => {
    let text = "";
    response.on("data", (data) => {
      text += data;
    });
    response.on("end", () => resolve({ status: response.statusCode, text }));
  });
  asked.on("error", reject);
  asked.end(JSON.stringify(review));
  return promise;
}

async function serve(context: TestContext) {
  const { files, source } = await createSource(context);
  const { reporting } = createTestApp();
  const app = createAdmissionApp({
    ...quietServer,
    reporting,
    admissions: [validation],
    asksForCertificates: true,
    monotonicMs: () => performance.now(),
  });
  const listening = await listen(app, { port: 0, requestTimeoutMs: 10_000, pair: await source.read() });
  context.after(() => listening.close(AbortSignal.abort()));
  return { files, source, listening, port: listening.port };
}

const shown = ({ cert, key }: IssuedPair) => ({ cert, key, agent: false });

test("the plain port refuses reviews at every path of every function with a message, unless a setting permits them", async () => {
  const invariants = admissionFunctions.map((definition) => ({ ...validation, definition }));
  const { app } = createTestApp({ admissions: invariants, reviewsOnPort: false });
  const asked = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(review) };
  for (const { paths } of admissionFunctions) {
    for (const one of paths) {
      const answer = await app.request(one, asked);
      assert.equal(answer.status, 421, one);
      assert.match(await answer.text(), /^Reviews are answered on TLS_PORT alone\. REVIEWS_ON_PORT=true /);
    }
  }
  assert.equal((await createTestApp({ reviewsOnPort: true }).app.request(path, asked)).status, 200);
});

test("a client with a certificate of the authorities is answered, and any other client gets 401 with a message", async (context) => {
  const { port } = await serve(context);
  const known = await ask(port, shown(await clients.issue()));
  assert.equal(known.status, 200, known.text);
  const bare = await ask(port, { agent: false });
  assert.deepEqual(
    [bare.status, /^Show a certificate of an authority in TLS_CLIENT_CA_FILE /.test(bare.text)],
    [401, true],
  );
  const foreign = await ask(port, shown(await others.issue()));
  assert.equal(foreign.status, 401, foreign.text);
  // Only reviews are secret, and a probe has no certificate.
  assert.equal((await ask(port, { agent: false }, "/healthz")).status, 404);
});

test("a change of the authorities counts for new connections, and for idle connections and session tickets as well", async (context) => {
  const { files, source, listening, port } = await serve(context);
  const client = await clients.issue();
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  context.after(() => agent.destroy());
  assert.equal((await ask(port, { ...client, agent })).status, 200);
  await writeFile(files.caFile, others.cert);
  listening.present(await source.read());
  const again = await ask(port, { ...client, agent }).catch(() => ask(port, { ...client, agent }));
  assert.equal(again.status, 401);
  assert.equal((await ask(port, shown(await others.issue()))).status, 200);
});

test("a malformed file of authorities is reported by name", async (context) => {
  const { caFile } = await createFiles(context);
  await assert.rejects(readClientAuthorities(`${caFile}.none`), /^Error: TLS_CLIENT_CA_FILE cannot be read: ENOENT/);
  for (const [text, pattern] of [
    ["", /holds no certificate in PEM/],
    ["-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----", /holds a certificate that cannot be read/],
  ] as const) {
    await writeFile(caFile, text);
    await assert.rejects(readClientAuthorities(caFile), pattern);
  }
  await writeFile(caFile, clients.cert + others.cert);
  assert.equal((await readClientAuthorities(caFile)).match(/BEGIN/g)?.length, 2);
});

test("a file of authorities that becomes malformed is reported once, and a renewed certificate is still presented", async (context) => {
  const { files, troubles, source } = await createSource(context);
  await writeFile(files.caFile, "half a fi");
  const renewed = await ours.issue();
  await writeFile(files.certFile, renewed.cert);
  await writeFile(files.keyFile, renewed.key);
  await source.read();
  const pair = await source.read();
  assert.deepEqual([pair.cert, pair.clientAuthorities], [renewed.cert, `${clients.cert.trim()}\n`]);
  assert.equal(troubles.length, 1);
  assert.match(troubles[0] ?? "", /holds no certificate in PEM; the authorities from before are kept$/);
});
