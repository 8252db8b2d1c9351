/** What suites with pods of a real database have in common: why they are skipped, and their pods beside the function. */
import { after, before } from "node:test";
import { packagesForTests } from "../support/packages.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { asDatabase, Pods, type PodsOptions } from "./pods.ts";
import { openSearchForTests } from "./program.ts";

const home = await openSearchForTests();
const packages = await packagesForTests();

/** For `skip` of a suite. */
export const skip = home === undefined || packages === undefined || (await skipWithoutControlPlane());

type StageOptions = Partial<PodsOptions> & {
  /** Runs when the pods are ready, and before the function starts. */
  readonly prepare?: (pods: Pods) => Promise<unknown>;
  /** Default: true. False: a test starts it. */
  readonly startsFunction?: boolean;
};

/** Opens pods for a suite, one in each of three zones by default, starts the function, and closes both at the end. */
export function stage(options: () => StageOptions | Promise<StageOptions> = () => ({})): { readonly pods: Pods } {
  let opened: Pods | undefined;
  before(async () => {
    if (home === undefined || packages === undefined) return;
    const { prepare, startsFunction = true, ...more } = await options();
    opened = await Pods.open({ home, packages, zones: 3, annotations: asDatabase, ...more });
    await prepare?.(opened);
    if (startsFunction) await opened.startFunction();
  });
  after(() => opened?.close());
  return {
    get pods() {
      if (opened === undefined) throw new Error("the suite has not begun");
      return opened;
    },
  };
}
