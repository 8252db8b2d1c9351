/** A group of two StatefulSets, each with its own Secrets with files. */
import { sumOfSecret } from "../../../../functions/advance-process-restart/files.ts";
import { RestartStage } from "./stage.ts";

export const namespace = "db";
export const zones = ["a", "b"] as const;
export const names = ["group-a-0", "group-a-1", "group-b-0"] as const;
export const dataOf = (file: string) => ({ "opensearch.yml": Buffer.from(file).toString("base64") });
export const sumIn = (file: string): string => sumOfSecret({ data: dataOf(file) });
/** The kubelet brings files so many steps after they were written. */
const broughtAfter = 4;

export class ZonesStage extends RestartStage {
  readonly #brought: string[][] = [];

  /** All processes run with this file. */
  async beginWith(file: string): Promise<void> {
    this.world.addGroup({ namespace, group: "group", zones: ["b"], replicas: 1 });
    await this.goOn(60_000);
    const { annotations = {} } = this.world.store.get("statefulsets", { namespace, name: "group-a" }).metadata;
    for (const zone of zones) {
      const files = { "sluice.dev/restart-config": `wanted-${zone}`, "sluice.dev/restart-mounted": `mounted-${zone}` };
      this.world.annotate({ namespace, name: `group-${zone}` }, { ...annotations, ...files });
      for (const name of Object.values(files))
        this.world.store.create("secrets", namespace, { metadata: { name }, data: dataOf(file) } as never);
    }
    for (const name of names) this.manager(name).running = sumIn(file);
    await this.begun();
  }

  expect(zone: string, file: string): void {
    this.world.store.patch("secrets", { namespace, name: `wanted-${zone}` }, { data: dataOf(file) } as never);
  }

  override async step(): Promise<void> {
    const sums = zones.map((zone) =>
      sumOfSecret(this.world.store.get("secrets", { namespace, name: `mounted-${zone}` })),
    );
    this.#brought.push(sums);
    const brought = this.#brought.at(-1 - broughtAfter) ?? this.#brought[0] ?? [];
    for (const name of names) this.manager(name).mounted = brought[name.startsWith("group-a") ? 0 : 1] ?? "";
    await super.step();
  }

  runs(file: string): boolean {
    const isDone = names.every(
      (name) => this.phaseOf(name) === undefined && this.manager(name).running === sumIn(file),
    );
    return isDone && this.claims.length === 0;
  }
}
