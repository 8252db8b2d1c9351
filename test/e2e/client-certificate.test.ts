/** The manifests' README about API servers that prove their identity to webhooks, on a real one. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, type TestContext, test } from "node:test";
import type { TLSSocket } from "node:tls";
import { promisify } from "node:util";
import { Api, eventually } from "../controlplane/api.ts";
import { startControlPlane } from "../controlplane/controlplane.ts";
import { freePort } from "../controlplane/ports.ts";
import { createAuthority } from "../support/certificates.ts";
import { evict, presentCertificate, registerWebhook } from "../support/drain-webhook.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { reviewAnew } from "./budget-reviews.ts";

const folderOfReadme = "/etc/kubernetes/sluice";
const crds = join(import.meta.dirname, "../../knative/base/crds");

interface Asked {
  readonly path: string;
  /** Of whom shows a certificate of the authority that is asked for; undefined of everybody else. */
  readonly client: string | undefined;
}

/** A webhook that allows every review, and requires a certificate of this authority. */
async function startWebhook(context: TestContext, clientAuthority: string) {
  const authority = await createAuthority();
  const asked: Asked[] = [];
  const options = { ...(await authority.issue()), ca: clientAuthority, requestCert: true, rejectUnauthorized: false };
  const server = createServer(options, async (request, response) => {
    const socket = request.socket as TLSSocket;
    const chunks: Buffer[] = await request.toArray();
    const { request: review } = JSON.parse(Buffer.concat(chunks).toString()) as { request: { uid: string } };
    asked.push({
      path: request.url?.split("?")[0] ?? "",
      client: socket.authorized ? socket.getPeerCertificate().subject.CN?.toString() : undefined,
    });
    response.setHeader("content-type", "application/json");
    const answer = { uid: review.uid, allowed: true };
    response.end(JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", response: answer }));
  });
  await new Promise<void>((resolve) => server.listen(0, resolve));
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    asked,
    port: (server.address() as AddressInfo).port,
    caBundle: Buffer.from(authority.cert).toString("base64"),
  };
}

/** Writes what the README has in YAML, for webhooks at this host. Resolves to the path of the AdmissionConfiguration. */
async function writeAsReadme(folder: string, host: string): Promise<string> {
  const readme = await readFile(join(import.meta.dirname, "../../knative/README.md"), "utf8");
  const here = readme.replaceAll(folderOfReadme, folder).replaceAll("rollout-operator.mimir.svc", host);
  const block = (pattern: RegExp) => pattern.exec(here)?.[1] ?? assert.fail(`the README has nothing like ${pattern}`);
  await writeFile(join(folder, "kubeconfig"), block(/```yaml\n(apiVersion: v1\nkind: Config\n[^`]+)```/));
  const path = join(folder, "admission.yaml");
  await writeFile(path, block(/```yaml\n(apiVersion: apiserver\.config\.k8s\.io\/v1\n[^`]+)```/));
  return path;
}

/** A folder with the certificate that the API server shows, and `clients.crt`, which is of its authority. */
async function createClients(context: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), "sluice-clients-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  const authority = await createAuthority();
  const { cert, key } = await authority.issue();
  await writeFile(join(folder, "client.crt"), cert);
  await writeFile(join(folder, "client.key"), key);
  await writeFile(join(folder, "clients.crt"), authority.cert);
  return { folder, authority: authority.cert };
}

suite("an API server with a certificate of its own", { skip: await skipWithoutControlPlane() }, () => {
  test("the API server shows it to the webhook that the README names, mutating and validating, and to no other", async (context) => {
    const { folder, authority } = await createClients(context);
    const named = await startWebhook(context, authority);
    const other = await startWebhook(context, authority);
    const admissionConfiguration = await writeAsReadme(folder, `localhost:${named.port}`);
    const controlPlane = await startControlPlane({ admissionConfiguration });
    context.after(() => controlPlane.stop());
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-clients" });
    context.after(() => api.close());
    for (const kind of ["Mutating", "Validating"]) {
      const webhooks = Object.entries({ named, other }).map(([name, { port, caBundle }]) => ({
        name: `${name}.a.b`,
        clientConfig: { url: `https://localhost:${port}/${kind}`, caBundle },
        rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["configmaps"] }],
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "default" } },
        admissionReviewVersions: ["v1"],
        failurePolicy: "Fail",
        sideEffects: "None",
      }));
      const path = `/apis/admissionregistration.k8s.io/v1/${kind.toLowerCase()}webhookconfigurations`;
      const metadata = { name: "clients" };
      const type = { apiVersion: "admissionregistration.k8s.io/v1", kind: `${kind}WebhookConfiguration` };
      await api.post(path, { ...type, metadata, webhooks });
    }
    const asks = async () => {
      const metadata = { generateName: "asking-" };
      await api.post("/api/v1/namespaces/default/configmaps", { apiVersion: "v1", kind: "ConfigMap", metadata });
      return [named, other].every(({ asked }) => new Set(asked.map(({ path }) => path)).size === 2) ? true : undefined;
    };
    await eventually("each asked by both", 30_000, asks);
    const seen = ({ asked }: typeof named) => [...new Set(asked.map(({ path, client }) => `${path} ${client}`))].sort();
    assert.deepEqual(seen(named), ["/Mutating sluice-test", "/Validating sluice-test"]);
    assert.deepEqual(seen(other), ["/Mutating undefined", "/Validating undefined"]);
  });

  test("Sluice with TLS_CLIENT_CA_FILE decides that API server's reviews, and answers no other client of its port", async (context) => {
    const { folder } = await createClients(context);
    const port = await freePort();
    const admissionConfiguration = await writeAsReadme(folder, `127.0.0.1:${port}`);
    const controlPlane = await startControlPlane({ admissionConfiguration });
    context.after(() => controlPlane.stop());
    const { kubeconfig, kubectl } = controlPlane;
    await promisify(execFile)(kubectl, ["--kubeconfig", kubeconfig, "apply", "-k", crds]);
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-clients" });
    context.after(() => api.close());
    const presented = await presentCertificate();
    context.after(() => presented.remove());
    const settings = {
      ...presented.settings,
      TLS_PORT: `${port}`,
      TLS_CLIENT_CA_FILE: join(folder, "clients.crt"),
    };
    const server = await Server.start({ kubeconfig, namespace: "default", settings });
    context.after(() => server.stop());
    await server.ready();
    await registerWebhook(api, "default", "Mutating", { port, ca: presented.ca });
    const reported = await reviewAnew(port, presented.ca, { metadata: { name: "forged" } });
    assert.match(reported, /^Show a certificate of an authority in TLS_CLIENT_CA_FILE /);
    const { message } = await evict(api, "default", "absent");
    assert.match(message, / denied the request: /);
  });
});
