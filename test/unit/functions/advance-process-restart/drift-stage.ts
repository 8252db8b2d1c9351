/** A group whose processes restart by themselves where other files are expected than they were started with. */
import { sumOfSecret } from "../../../../functions/advance-process-restart/files.ts";
import { RestartStage } from "./stage.ts";

export const namespace = "db";
const named = { "sluice.dev/restart-config": "wanted", "sluice.dev/restart-mounted": "mounted" };
export const dataOf = (file: string | Buffer) => ({ "opensearch.yml": Buffer.from(file).toString("base64") });
export const names = [0, 1, 2].map((ordinal) => `group-a-${ordinal}`);
export const reasonKey = "sluice.dev/restart-reason";

export class DriftStage extends RestartStage {
  static async of(mode?: string): Promise<DriftStage> {
    const stage = new DriftStage(named);
    const annotations = mode === undefined ? {} : { "sluice.dev/restart-mode": mode };
    for (const name of ["wanted", "mounted"])
      stage.world.store.create("secrets", namespace, {
        metadata: { name, annotations },
        data: dataOf("a: 1"),
      } as never);
    for (const name of names) stage.manager(name).running = sumOfSecret({ data: dataOf("a: 1") });
    await stage.begun();
    return stage;
  }

  expect(file: string | Buffer): void {
    this.world.store.patch("secrets", { namespace, name: "wanted" }, { data: dataOf(file) } as never);
  }

  /** The kubelet brings what is mounted. */
  async stepWithFiles(): Promise<void> {
    const { data = {} } = this.world.store.find("secrets", { namespace, name: "mounted" }) ?? {};
    for (const name of names) this.manager(name).mounted = sumOfSecret({ data });
    await this.step();
  }

  get phases(): readonly (string | undefined)[] {
    return names.map((name) => this.phaseOf(name));
  }

  get starts(): readonly number[] {
    return names.map((name) => this.manager(name).starts);
  }
}

export async function steps(stage: DriftStage, count: number): Promise<void> {
  for (let step = 0; step < count; step++) await stage.stepWithFiles();
}
