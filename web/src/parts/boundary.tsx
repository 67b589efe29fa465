/** A view that fails says so and leaves the rest of the page alone; going elsewhere tries again. */
import { Component, type ComponentChildren } from "preact";

interface BoundaryProps {
  /** What is shown: another place is another try. */
  place: string;
  children: ComponentChildren;
}

export class Boundary extends Component<BoundaryProps, { problem: string | null; place: string }> {
  override state = { problem: null as string | null, place: this.props.place };

  static override getDerivedStateFromProps(props: BoundaryProps, state: { problem: string | null; place: string }) {
    return props.place === state.place ? null : { problem: null, place: props.place };
  }

  override componentDidCatch(problem: unknown): void {
    this.setState({ problem: problem instanceof Error ? problem.message : String(problem) });
  }

  override render() {
    if (this.state.problem === null) return this.props.children;
    return (
      <p class="notice bad" role="alert">
        This view failed: {this.state.problem}. The recording may be damaged or of another version; the other views still work.
      </p>
    );
  }
}
