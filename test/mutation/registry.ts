/** The tests that files have declared. Each can be run alone, and repeatedly. */

export type Body = (context: unknown) => unknown;

export interface Hooks {
  readonly before: Body[];
  readonly after: Body[];
}

export interface DeclaredTest {
  readonly file: string;
  /** Name with those of its suites. */
  readonly name: string;
  readonly body: Body;
  /** Hooks of the file, and of the suites from the outside in. */
  readonly hooks: readonly Hooks[];
}

interface Suite {
  readonly name: string;
  readonly hooks: Hooks;
}

const emptyHooks = (): Hooks => ({ before: [], after: [] });

/** What the file under import has declared so far. */
class Declaring {
  #file = "";
  #suites: Suite[] = [];
  #tests: DeclaredTest[] = [];

  /** Imports a file and returns its tests. Tests of the same name get a number. */
  async read(file: string, load: () => Promise<unknown>): Promise<readonly DeclaredTest[]> {
    this.#file = file;
    this.#suites = [{ name: "", hooks: emptyHooks() }];
    this.#tests = [];
    await load();
    return this.#tests;
  }

  test(name: string, body: Body): void {
    const path = [...this.#suites.slice(1).map((suite) => suite.name), name].join(" > ");
    const same = this.#tests.filter((one) => one.name === path || one.name.startsWith(`${path} #`)).length;
    const hooks = this.#suites.map((suite) => suite.hooks);
    this.#tests.push({ file: this.#file, name: same === 0 ? path : `${path} #${same + 1}`, body, hooks });
  }

  suite(name: string, body: Body): void {
    this.#suites.push({ name, hooks: emptyHooks() });
    const result = body({ name });
    if (result instanceof Promise) throw new Error(`${this.#file}: the suite ${name} declares its tests too late`);
    this.#suites.pop();
  }

  hook(kind: keyof Hooks, body: Body): void {
    this.#suites.at(-1)?.hooks[kind].push(body);
  }
}

export const declaring = new Declaring();
