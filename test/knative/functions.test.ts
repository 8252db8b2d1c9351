/** The functions of the overlay `direct` on the real API server, each with its own account and settings, as they are rendered. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { Api, eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate } from "../controlplane/fixtures.ts";
import { evict } from "../e2e/drain-webhook.ts";
import { play, skipWithoutControlPlane } from "../e2e/scene.ts";
import { Server } from "../e2e/server.ts";
import { askedBy, isWebhook, isWorkload, kubeconfigOf, webhookAt, workloadOf } from "./installed.ts";
import { type Built, Kubectl } from "./kubectl.ts";

/** Posts an event as Knative's sources do, in binary mode. Resolves to the status. */
async function post(server: Server, type: string, extensions: Readonly<Record<string, string>>): Promise<number> {
  const headers = {
    "content-type": "application/json",
    "ce-specversion": "1.0",
    "ce-id": crypto.randomUUID(),
    "ce-source": "/test",
    "ce-type": type,
    ...extensions,
  };
  return (await fetch(server.url, { method: "POST", headers, body: "{}" })).status;
}

suite("the overlay direct on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  const namespace = "loki";
  let controlPlane: ControlPlane;
  let api: Api;
  let kubectl: Kubectl;
  let objects: Built[];
  const servers: Server[] = [];
  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-overlay" });
    kubectl = await Kubectl.open(controlPlane);
    objects = await kubectl.buildIn(namespace, "direct");
    await kubectl.apply(objects.filter(({ kind }) => kind === "CustomResourceDefinition"));
    await kubectl.run("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
    await kubectl.run("create", "namespace", namespace);
    const isForeign = ({ apiVersion }: Built) => apiVersion.includes("knative.dev/");
    await kubectl.apply(objects.filter((object) => !isForeign(object) && !isWebhook(object) && !isWorkload(object)));
  });
  after(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await api?.close();
    await controlPlane?.stop();
    await kubectl?.close();
  });

  test("events alone have advance-zone-rollout roll a group, with the rights that it is given", async (context) => {
    const from = await auditPosition(controlPlane.auditLog);
    const { account, settings } = workloadOf(objects, "advance-zone-rollout");
    await play(controlPlane, namespace, { zones: 3, pods: 2, maxUnavailable: 1 }, async (scene) => {
      const kubeconfig = await kubeconfigOf(controlPlane, api, namespace, account);
      const server = await scene.serve(settings, { kubeconfig });
      await server.ready();
      assert.equal(await post(server, "dev.knative.sources.ping", {}), 204);
      await scene.waitForOldLedger(server);
      const posted: Promise<number>[] = [];
      scene.observer.listen((kind, _type, name) => {
        const ofObject = { "ce-kind": kind, "ce-namespace": namespace, "ce-name": name };
        posted.push(post(server, "dev.knative.apiserver.ref.update", ofObject));
      });
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
      assert.ok((await Promise.all(posted)).every((status) => status === 204));
      const errors = server.log.filter(({ level }) => level === "error");
      assert.deepEqual(errors, []);
    });
    const { asked, forbidden } = await askedBy(controlPlane, from, namespace, account);
    context.diagnostic(`asked: ${asked.join(", ")}`);
    assert.deepEqual(forbidden, []);
    assert.ok(asked.includes("delete pods") && asked.includes("patch leases"), "nothing was seen of what it did");
    assert.ok(!asked.some((request) => request.startsWith("watch ")), "a function that comes and goes never watches");
  });

  test("rotate-certificate, woken by a tick, has the replicas that answer reviews trusted, each with its own rights", async () => {
    const from = await auditPosition(controlPlane.auditLog);
    const start = async (name: string, free: Readonly<Record<string, string>>) => {
      const { account, settings } = workloadOf(objects, name);
      const kubeconfig = await kubeconfigOf(controlPlane, api, namespace, account);
      const server = await Server.start({ kubeconfig, namespace, settings: { ...settings, ...free } });
      servers.push(server);
      return server;
    };
    const rotator = await start("rotate-certificate", { TLS_DNS_NAME: "localhost" });
    const replica = await start("sluice-admission", { PORT: "0", TLS_PORT: "0" });
    await replica.ready();
    const { tlsPort } = replica;
    await kubectl.apply(objects.filter(isWebhook).map((configuration) => webhookAt(tlsPort, configuration)));
    assert.equal(await post(rotator, "dev.knative.sources.ping", {}), 204);
    await eventually("an eviction judged", 30_000, async () => {
      const { message } = await evict(api, namespace, "nobody");
      return /^admission webhook "pod-eviction\.loki\.grafana\.com" denied the request: /.test(message)
        ? true
        : undefined;
    });
    const examples = await kubectl.rehearse(namespace, "examples");
    assert.ok(examples.length > 6 && examples.every((line) => /dry run\)$/.test(line)), examples.join("\n"));
    const rotation = await askedBy(controlPlane, from, namespace, "rotate-certificate");
    const reviews = await askedBy(controlPlane, from, namespace, "sluice-admission");
    assert.deepEqual([...rotation.forbidden, ...reviews.forbidden], []);
    assert.ok(rotation.asked.includes("create secrets") && !rotation.asked.some((one) => one.startsWith("watch ")));
    assert.ok(reviews.asked.includes("watch pods") && reviews.asked.includes("get secrets"));
  });

  test("the account of the sources may watch what wakes the function, and change nothing", async () => {
    const as = `--as=system:serviceaccount:${namespace}:advance-zone-rollout-source`;
    const may = async (verb: string, resource: string) => {
      const answer = await kubectl.run("auth", "can-i", verb, resource, "-n", namespace, as).catch(() => "no");
      return answer.trim();
    };
    for (const resource of ["pods", "statefulsets.apps"]) {
      for (const verb of ["get", "list", "watch"])
        assert.equal(await may(verb, resource), "yes", `${verb} ${resource}`);
      for (const verb of ["delete", "patch", "create"])
        assert.equal(await may(verb, resource), "no", `${verb} ${resource}`);
    }
    for (const resource of ["secrets", "leases.coordination.k8s.io"]) assert.equal(await may("get", resource), "no");
  });
});
