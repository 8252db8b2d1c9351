/** What the manifests' README says of API servers that prove to webhooks who they are, on a real one. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, type TestContext, test } from "node:test";
import type { TLSSocket } from "node:tls";
import { Api, eventually } from "../controlplane/api.ts";
import { startControlPlane } from "../controlplane/controlplane.ts";
import { createAuthority } from "../unit/certificates.ts";
import { skipWithoutControlPlane } from "./scene.ts";

const folderOfReadme = "/etc/kubernetes/sluice";

interface Asked {
  readonly path: string;
  /** Of whom shows a certificate of the authority that is asked for; undefined of everybody else. */
  readonly client: string | undefined;
}

/** A webhook that allows whatever it is asked, and asks for a certificate of this authority. */
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

/** What the README has in YAML, where this test keeps it, for a webhook at this host. */
async function readReadme(folder: string, host: string) {
  const readme = await readFile(join(import.meta.dirname, "../../knative/README.md"), "utf8");
  const here = readme.replaceAll(folderOfReadme, folder).replaceAll("rollout-operator.mimir.svc", host);
  const block = (pattern: RegExp) => pattern.exec(here)?.[1] ?? assert.fail(`the README has nothing like ${pattern}`);
  return {
    configuration: block(/```yaml\n(apiVersion: apiserver\.config\.k8s\.io\/v1\n[^`]+)```/),
    kubeconfig: block(/```yaml\n(apiVersion: v1\nkind: Config\n[^`]+)```/),
  };
}

suite("an API server with a certificate of its own", { skip: await skipWithoutControlPlane() }, () => {
  test("it is shown to the webhook that the README names, by mutating and validating configurations, and to no other", async (context) => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-clients-"));
    context.after(() => rm(folder, { recursive: true, force: true }));
    const clients = await createAuthority();
    const { cert, key } = await clients.issue();
    await writeFile(join(folder, "client.crt"), cert);
    await writeFile(join(folder, "client.key"), key);
    const named = await startWebhook(context, clients.cert);
    const other = await startWebhook(context, clients.cert);
    const { configuration, kubeconfig } = await readReadme(folder, `localhost:${named.port}`);
    await writeFile(join(folder, "admission.yaml"), configuration);
    await writeFile(join(folder, "kubeconfig"), kubeconfig);
    const controlPlane = await startControlPlane({ admissionConfiguration: join(folder, "admission.yaml") });
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
});
