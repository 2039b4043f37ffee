"""Programs that stand in for an agent in a pane. They take turns and write down what they got."""
