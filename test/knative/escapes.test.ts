/** No account of Sluice does what its functions do not do: its Role and the fence refuse it, attempt by attempt. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, suite, type TestContext, test } from "node:test";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { isWebhook, isWorkload, tokenOf } from "../support/installed.ts";
import { type Built, isDefinition, Kubectl } from "../support/kubectl.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { type Attempt, forms } from "./escape-forms.ts";
import { furnish } from "./escape-place.ts";
import { attemptsFor, type Place, type Webhooks } from "./escapes.ts";
import { accountsOf, type Right, rightsOf, textOf } from "./rights.ts";

/** Verbs that change nothing. */
const reading = ["get", "list", "watch"];
const isForeign = ({ apiVersion }: Built) => apiVersion.includes("knative.dev/");
/** All policies are read by the API server within seconds; the machine may be busy. */
const readWithinMs = 60_000;

suite("escapes on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let administrator: Api;
  let kubectl: Kubectl;
  before(async () => {
    controlPlane = await startControlPlane();
    administrator = await Api.open(controlPlane, { userAgent: "sluice-test-administrator" });
    kubectl = await Kubectl.open(controlPlane);
    await kubectl.run("apply", "-k", join(import.meta.dirname, "../fixtures/crds"));
    await kubectl.apply(await kubectl.build("base/crds"));
    await kubectl.waitForDefinitions();
  });
  after(async () => {
    await kubectl?.close();
    await administrator?.close();
    await controlPlane?.stop();
  });

  /** Resolves to the status and the words of the answer. Nothing is stored: admission and rights are the same for a dry run. */
  const ask = async (by: Api, { method, path, body, contentType }: Attempt) => {
    const url = `${path}${path.includes("?") ? "&" : "?"}dryRun=All`;
    const answer = await by.send(method, url, body, contentType);
    const text = await answer.body.text();
    return { status: answer.statusCode, text };
  };

  /** What refused; undefined where nothing has, or another error came first. */
  const refusedBy = ({ status, text }: { readonly status: number; readonly text: string }) => {
    if (/sluice-fence-/.test(text) && (status === 422 || status === 403)) return "policy";
    return status === 403 && /is forbidden: User/.test(text) ? "role" : undefined;
  };

  async function attack(by: Api, attempts: readonly Attempt[]): Promise<readonly string[]> {
    const failures: string[] = [];
    for (const attempt of attempts) {
      const answer = await ask(by, attempt);
      if (attempt.by === "nothing") {
        if (answer.status !== 200) failures.push(`${attempt.what}: ${answer.status} ${answer.text.slice(0, 300)}`);
        continue;
      }
      if (refusedBy(answer) !== attempt.by)
        failures.push(`${attempt.what}: ${answer.status} ${answer.text.slice(0, 300)}`);
      if (attempt.by === "role") continue;
      const allowed = await ask(administrator, attempt);
      if (allowed.status >= 300)
        failures.push(`${attempt.what} is no request: ${allowed.status} ${allowed.text.slice(0, 300)}`);
    }
    return failures;
  }

  async function install(overlay: string, place: Place) {
    const { namespace } = place;
    const objects = (await kubectl.buildIn(namespace, overlay)).filter((one) => !isForeign(one) || isWorkload(one));
    for (const one of [namespace, place.elsewhere]) await kubectl.run("create", "namespace", one);
    await kubectl.apply(objects.filter((one) => !isWorkload(one) && !isDefinition(one)));
    await furnish(administrator, place);
    const configurations = objects.filter(isWebhook);
    const live = await Promise.all([
      ...configurations.map(({ kind, metadata: { name } }) =>
        keyedLive(kind, name, name === `no-downscale-${namespace}`),
      ),
      keyedLive("ValidatingWebhookConfiguration", `pod-eviction-${namespace}`, false),
    ]);
    return { objects, known: Object.fromEntries(live) };
  }

  /** A configuration as it is stored, with a key in its first path if that is wanted. */
  async function keyedLive(kind: string, name: string, isKeyed: boolean): Promise<[string, Webhooks[string]]> {
    const path = `/apis/admissionregistration.k8s.io/v1/${kind.toLowerCase()}s/${name}`;
    const key = { op: "replace", path: "/webhooks/0/clientConfig/service/path" };
    const { metadata, webhooks } = await administrator.get<{
      metadata: { labels: Record<string, string> };
      webhooks: { clientConfig: { service: { path: string } } }[];
    }>(path);
    const [first] = webhooks;
    assert.ok(first !== undefined);
    if (isKeyed) {
      const { service } = first.clientConfig;
      service.path = `/${"a".repeat(64)}${service.path}`;
      const answer = await administrator.send("PATCH", path, [{ ...key, value: service.path }], forms.json);
      assert.equal(answer.statusCode, 200, await answer.body.text());
    }
    return [
      `${kind} ${name}`,
      { labels: metadata.labels, webhooks: webhooks as unknown as Webhooks[string]["webhooks"] },
    ];
  }

  async function walk(context: TestContext, overlay: string): Promise<void> {
    const place = { namespace: `escapes-${overlay}`, elsewhere: `elsewhere-${overlay}` };
    const { objects, known } = await install(overlay, place);
    const failures: string[] = [];
    let tried = 0;
    for (const account of accountsOf(objects)) {
      const token = await tokenOf(administrator, place.namespace, account);
      const attacker = await Api.open({ ...controlPlane, token }, { userAgent: "sluice-test-attacker" });
      const rights = rightsOf(objects, place.namespace, account).filter(({ verb }) => !reading.includes(verb));
      const lines: string[] = [];
      for (const right of rights) {
        const attempts = attemptsFor(right, account, place, known) ?? [];
        assert.ok(attempts.length > 0, `${account} may ${textOf(right)}, and no attempt says what is no work of it`);
        await waitForPolicies(attacker, attempts);
        failures.push(...(await attack(attacker, attempts)).map((one) => `${account}, ${textOf(right)}: ${one}`));
        lines.push(lineOf(right, attempts));
        tried += attempts.length;
      }
      context.diagnostic([account, ...lines].join("\n  "));
      await attacker.close();
    }
    context.diagnostic(`${tried} attempts`);
    assert.deepEqual(failures, []);
  }

  /** Policies count a moment after they are stored. */
  async function waitForPolicies(attacker: Api, attempts: readonly Attempt[]): Promise<void> {
    const first = attempts.find(({ by }) => by === "policy");
    if (first === undefined) return;
    const refused = async () => (refusedBy(await ask(attacker, first)) === "policy" ? true : undefined);
    await eventually(`${first.what} refused`, readWithinMs, refused).catch(() => undefined);
  }

  function lineOf(right: Right, attempts: readonly Attempt[]): string {
    const count = (by: Attempt["by"]) => attempts.filter((one) => one.by === by).length;
    const passed = count("nothing") === 0 ? "" : `; ${count("nothing")} passed`;
    return `${textOf(right)}: ${count("policy")} refused by a policy, ${count("role")} by the Role${passed}`;
  }

  for (const overlay of ["standalone", "direct"]) {
    test(`no account of the overlay ${overlay} changes a field, an object or a namespace that is no work of its functions`, (context) =>
      walk(context, overlay));
  }
});
