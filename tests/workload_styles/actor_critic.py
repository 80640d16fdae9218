"""An actor-critic as in TensorFlow's tutorial: a function runs an episode in a loop, which ends when the world says.

How long it is the graph cannot tell; the profile counts the calls.
"""
#: bench only
#: said how often 8 matrix multiplications run in a step, the graph does not tell: it is the mean of

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


class ActorCritic(keras.Model):
    def __init__(self):
        super().__init__(name="net")
        #: net/common 10*1x4x128: forward, wgrad
        self.common = layers.Dense(128, activation="relu", name="common")
        self.actor = layers.Dense(2, name="actor")  #: net/actor 10*1x128x2: forward, dgrad, wgrad
        self.critic = layers.Dense(1, name="critic")  #: net/critic 10*1x128x1: forward, dgrad, wgrad

    def call(self, inputs):
        features = self.common(inputs)
        return self.actor(features), self.critic(features)


model = ActorCritic()
model(tf.zeros((1, 4)))
optimizer = keras.optimizers.SGD(0.001)
if hasattr(optimizer, "build"):
    optimizer.build(model.trainable_variables)
acted = 0


def world(action):
    global acted
    acted += 1
    return np.full(4, 0.1 * acted % 1, np.float32), np.float32(1.0), np.int32(acted % 10 == 0)


def act(action):
    return tf.numpy_function(world, [action], [tf.float32, tf.float32, tf.int32])


def run_episode(state, most):
    chances = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    values = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    rewards = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    for t in tf.range(most):
        logits, value = model(tf.expand_dims(state, 0))
        action = tf.random.categorical(logits, 1)[0, 0]
        chances = chances.write(t, tf.nn.softmax(logits)[0, action])
        values = values.write(t, value[0, 0])
        state, reward, done = act(action)
        state.set_shape((4,))
        rewards = rewards.write(t, reward)
        if tf.cast(done, tf.bool):
            break
    return chances.stack(), values.stack(), rewards.stack()


@tf.function
def train_step(state, most):
    with tf.GradientTape() as tape:
        chances, values, rewards = run_episode(state, most)
        advantage = tf.cumsum(rewards, reverse=True) - values
        loss = tf.reduce_sum(tf.square(advantage)) - tf.reduce_sum(tf.math.log(chances) * advantage)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


steps = 0
for _ in range(36):
    train_step(tf.zeros((4,)), 500)
    steps += 1
print("steps", steps)
