/**
 * TLS is switched on for a real OpenSearch by changed Secrets, one after the other. A node with TLS cannot join one without, so
 * that the function, which is killed meanwhile, restarts all processes together by itself.
 */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { fetch } from "undici";
import { eventually } from "../controlplane/api.ts";
import { freePort, releasePorts } from "../controlplane/ports.ts";
import { slowMs } from "./nodes.ts";
import { asDatabase, hostOf, namesIn, namespace, type Pods } from "./pods.ts";
import { Security, user, withoutTls, withTls } from "./security.ts";
import { skip, stage } from "./stage.ts";
import { assertNothingLeft, assertTogether, writeDocument } from "./together.ts";
import { Wire } from "./wire.ts";

const passwordSecret = "db-password";

suite("a real OpenSearch whose Secrets switch on TLS", { skip }, () => {
  let security: Security;
  let wirePort: number;
  const wires: Wire[] = [];

  async function prepare({ api, nodes, names }: Pods): Promise<void> {
    const stringData = { ...user, "ca.crt": security.authority };
    await api.post(`/api/v1/namespaces/${namespace}/secrets`, { metadata: { name: passwordSecret }, stringData });
    for (const name of names) wires.push(await Wire.open(nodes.addressOf(name), wirePort, nodes.port));
  }

  const on = stage(async () => {
    security = await Security.make(namesIn(3).map(hostOf));
    wirePort = await freePort();
    const annotations = () => ({
      ...asDatabase(wirePort),
      "sluice.dev/restart-database-url": `https://:${wirePort} http://:${wirePort}`,
      "sluice.dev/restart-database-secret": passwordSecret,
    });
    return { annotations, hasSecrets: true, security, prepare };
  });

  after(async () => {
    for (const wire of wires) await wire.close();
    if (wirePort !== undefined) releasePorts(wirePort);
  });

  /** Changes the Secrets, one after the other, and waits until one restart of all has ended. Returns how long each was down. */
  async function change(lines: readonly string[], whileStopping = async () => {}): Promise<readonly number[]> {
    const { pods } = on;
    const [first = "", ...others] = pods.names;
    const begun = (await pods.journal()).length;
    const since = async () => (await pods.journal()).slice(begun);
    await pods.expect(lines, [first]);
    const disagrees = "have in common, and ";
    await eventually("a wait for the other Secrets", slowMs, async () => pods.log.includes(disagrees) || undefined);
    assert.deepEqual(await since(), []);
    await pods.expect(lines, others);
    await eventually("a process that stops", slowMs, async () => (await since()).length > 0 || undefined);
    await whileStopping();
    await assertTogether(pods, since);
    await assertNothingLeft(pods);
    return pods.downMs();
  }

  test("one restart of all follows the last Secret, then all answer https alone, and no password went without TLS", async () => {
    const { pods } = on;
    const { nodes, names } = pods;
    const [first = ""] = names;
    await writeDocument(pods);
    await change(withTls, () => pods.startFunction());
    for (const name of names) {
      await assert.rejects(nodes.askBy("http", name, "/"), `${name} answers without TLS`);
      assert.equal((await nodes.askBy("https", name, "/")).status, 200, name);
    }
    const { status } = await fetch(`https://${nodes.addressOf(first)}:${nodes.port}/`, { dispatcher: security.agent });
    assert.equal(status, 401, "only with its password the function has undone what it changed");
    const plain = wires.map((wire) => wire.plain).join("");
    assert.match(plain, /^PUT \/_cluster\/settings HTTP/m, "without TLS the function was answered before the switch");
    assert.equal(/^authorization:.*$/im.exec(plain)?.[0], undefined);
  });

  test("the Secrets of before lead back by one restart, in which no process is down for 30 s, and documents are kept", async (context) => {
    const { nodes, names } = on.pods;
    const downMs = await change(withoutTls);
    context.diagnostic(`down for ${downMs.join(", ")} ms`);
    assert.ok(Math.max(...downMs) <= 30_000, `down for ${downMs.join(", ")} ms`);
    for (const name of names) {
      assert.equal((await nodes.askBy("http", name, "/")).status, 200, name);
      await assert.rejects(nodes.askBy("https", name, "/"), `${name} answers with TLS`);
    }
  });
});
