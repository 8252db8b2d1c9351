/** The chapter *Away with it* of the manual, typed: it leaves nothing that it does not name, and nothing that is in the way. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { askForFinalizers, nothingInTheWay, readAway, refusalsOf, serveInstalled, typeInPod } from "../support/away.ts";
import { type Built, Kubectl } from "../support/kubectl.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";
import { ensureSchemas } from "./schemas.ts";

const schemas = await ensureSchemas().catch((error: Error) => error);
if (schemas instanceof Error && process.env.CI === "true") throw schemas;
const hasSchemas = !(schemas instanceof Error);

/** For types that only a CRD of Knative or of prometheus-operator brings. */
const needsSchemas = /ksvc|servicemonitor/;
const isDeletion = (command: string) => / delete |xargs/.test(command);

suite("Away with it", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let kubectl: Kubectl;
  before(async () => {
    controlPlane = await startControlPlane();
    kubectl = await Kubectl.open(controlPlane);
    if (!hasSchemas) return;
    await kubectl.run("apply", "--server-side", ...schemas.flatMap((file) => ["-f", file]));
    await kubectl.waitForDefinitions();
  });
  after(async () => {
    await controlPlane?.stop();
    await kubectl?.close();
  });

  test("each object that ships is deleted by a command of the chapter, or named as what stays, and not both", async () => {
    const objects: Built[] = [];
    for (const overlay of ["standalone", "direct", "broker"])
      objects.push(...(await kubectl.buildIn("mimir", overlay)));
    const folders = ["monitoring", "process-manager", "stop-gate", "sources-rabbitmq", "sources-foundationdb"];
    for (const folder of [...folders.map((name) => `base/${name}`), "overlays/outside"])
      objects.push(...(await kubectl.build(folder)));
    assert.ok(objects.length > 100);
    const { isDeleted, isNamed } = await readAway(kubectl, "mimir");
    const wrong = objects.filter((object) => isDeleted(object) === isNamed(object));
    assert.deepEqual(
      wrong.map(({ kind, metadata: { name } }) => `${kind} ${name}`),
      [],
    );
  });

  for (const overlay of hasSchemas ? ["standalone", "direct", "broker"] : ["standalone"])
    test(`it removes all of the overlay ${overlay} but what it says stays, and may be typed again`, async () => {
      const namespace = `away-${overlay}`;
      await kubectl.run("create", "namespace", namespace);
      const { commands, isNamed } = await readAway(kubectl, namespace);
      const watched = hasSchemas ? await kubectl.build("base/monitoring") : [];
      const own = watched.map((one) => ({ ...one, metadata: { ...one.metadata, namespace } }));
      const objects = [...(await kubectl.buildIn(namespace, overlay)), ...own];
      await kubectl.apply(objects);
      const typed = commands.filter((command) => isDeletion(command) && (hasSchemas || !needsSchemas.test(command)));
      assert.ok(typed.length >= 5);
      for (const command of overlay === "standalone" ? [...typed, ...typed] : typed) await kubectl.shell(command);
      assert.deepEqual(await kubectl.existing(objects), objects.filter(isNamed));
    });

  test("typed as a whole, it takes each finalizer off, and leaves nothing in the way of downscales, evictions and deletions", async () => {
    const namespace = "away-whole";
    await play(controlPlane, namespace, { zones: 2, pods: 2 }, async (scene) => {
      await kubectl.apply(await kubectl.buildIn(namespace, "standalone"));
      const first = await serveInstalled(scene);
      await askForFinalizers(scene);
      const { commands } = await readAway(kubectl, namespace);
      const preparing = commands.filter((command) => / set env /.test(command));
      assert.equal(preparing.length, 2);
      for (const command of preparing) await kubectl.shell(command);
      const [check = assert.fail()] = commands.filter((command) => / exec /.test(command));
      await first.stop();
      const [checked] = await Promise.all([typeInPod(scene, check), serveInstalled(scene)]);
      assert.deepEqual(
        [checked.code, checked.stdout],
        [0, `no object of namespace ${namespace} has a finalizer of Sluice\n`],
      );
      for (const command of commands.filter((one) => / get /.test(one) && !isDeletion(one)))
        await eventually(`nothing found by ${command}`, 30_000, async () =>
          (await kubectl.shell(`${command.replace(",rabbitmqclusters", "")} || true`)) === "" ? true : undefined,
        );
      assert.equal((await refusalsOf(scene)).length, 2, "no replica answers, and the webhooks are there");
      for (const command of commands.filter((one) => isDeletion(one) && !needsSchemas.test(one)))
        await kubectl.shell(command);
      await nothingInTheWay(scene);
    });
  });
});
